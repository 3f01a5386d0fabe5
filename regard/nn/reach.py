"""How far back a gradient reaches: how much the loss at a sequence's end depends on each word before it."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.layout import Layout
from regard.nn.pooling import present, summary
from regard.nn.recurrent import reverse


class Reader(Protocol):
    """A model that embeds tokens and makes one hidden row of each."""

    embedding: nn.Embedding
    training: bool

    def __call__(self, tokens: Tensor, layout: Layout) -> Tensor: ...

    def train(self, mode: bool) -> Any: ...


def gradient_reach(reader: Reader, tokens: Tensor, layout: Layout, loss: Callable[[Tensor], Tensor]) -> np.ndarray:
    """|∂L/∂x_{T-d}| for every distance d, from 0 to the longest sequence's first token, without dropout.

    x_t is the embedded token and L the loss at the last token: `loss` maps the last hidden rows (B, d_out) to one loss
    each (B).  At a distance, the mean over the sequences that go so far back.
    """
    if not layout.n_sequences or not layout.lengths.all():
        raise RegardError("the reach of gradients is measured from the last token, and a sequence has none")
    was_training = reader.training
    embedded: list[Tensor] = []

    def keep(module: nn.Module, arguments: object, output: Tensor) -> Tensor:
        embedded.append(output.detach().requires_grad_())
        return embedded[0]

    hook = reader.embedding.register_forward_hook(keep)
    reader.train(False)
    try:
        # cuDNN's recurrent kernels have no gradient outside of training; PyTorch's own do.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            losses = loss(summary(reader(tokens, layout), layout, "last"))
            (gradient,) = torch.autograd.grad(losses.sum(), embedded)
    finally:
        hook.remove()
        reader.train(was_training)
    gradient = gradient.double()  # squares of what has almost vanished are still numbers
    norms = reverse(layout.pad(gradient.norm(dim=-1))[..., None], layout)  # B T 1, in order of distance
    there = present(norms, layout.lengths)
    return (torch.where(there, norms, 0).sum(0) / there.sum(0)).squeeze(1).cpu().numpy()
