"""How far back a gradient reaches: how much the loss at a sequence's end, or its last state, depends on each state
before it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.models.interface import Reader
from regard.nn.layout import Layout, Ragged
from regard.nn.pooling import present, summary
from regard.nn.recurrent import Cell, RecurrentStack, reverse


def gradient_reach(reader: Reader, tokens: Tensor, layout: Layout, loss: Callable[[Tensor], Tensor]) -> np.ndarray:
    """|∂L/∂h_{T-d}| for every distance d, from 0 to the longest sequence's first token, without dropout.

    h_t are the states of all layers of a recurrent net after token t.  A net without states has h_t where its layers
    look: the embedded token, before it is scaled.  L is the loss at the last token: `loss` maps the last hidden rows
    (B, d_out) to one loss each (B).  At a distance, the mean over the sequences that go so far back.
    """
    if not layout.n_sequences or not layout.lengths.all():
        raise RegardError("the reach of gradients is measured from the last token, and a sequence has none")
    if layout.longest > reader.learned_at_once:
        raise RegardError(
            f"gradients of this model go back through at most {reader.learned_at_once} tokens, those of one segment, "
            f"and {layout.longest} were asked for; lower the distance"
        )
    was_training = reader.training
    reader.train(False)
    try:
        # cuDNN's recurrent kernels have no gradient outside of training; PyTorch's own do.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), noting_states(reader) as states:
            losses = loss(summary(reader(tokens, layout), layout, "last"))
            gradients = torch.autograd.grad(losses.sum(), states)
    finally:
        reader.train(was_training)
    total = torch.zeros(layout.n_sequences, layout.longest, dtype=torch.float64, device=tokens.device)
    for gradient in gradients:  # of states (T, S, B, M) or of embedded tokens (N, D)
        squares = gradient.double() ** 2  # squares of what has almost vanished are still numbers
        total += squares.sum((1, 3)).T if gradient.ndim == 4 else layout.pad(squares.sum(-1))
    norms = reverse(total.sqrt()[..., None], layout)  # B T 1, in order of distance
    is_token = present(norms, layout.lengths)
    return (torch.where(is_token, norms, 0).sum(0) / is_token.sum(0)).squeeze(1).cpu().numpy()


@torch.no_grad()
def jacobian_norms(reader: Reader, tokens: Tensor, layout: Ragged) -> np.ndarray:
    """‖∂s_T/∂s_{T-d}‖ = ‖J_T J_{T-1} ... J_{T-d+1}‖ for every distance d from 0, without dropout.

    s_t are the states of all layers of a recurrent net after token t, in one vector, and J_t = ∂s_t/∂s_{t-1}.  The norm
    is the largest singular value: how much the net stretches what it stretches most.  At a distance, the mean over the
    sequences that go so far back, inf beyond the range of floats.  Unlike a gradient it asks for no loss: this is the
    net alone.
    """
    stacks = [module for module in reader.modules() if isinstance(module, RecurrentStack)]
    if len(stacks) != 1 or stacks[0].bidirectional:
        raise RegardError(
            "Jacobians are multiplied along the states of a recurrent net in one direction; this has none"
        )
    [stack], was_training = stacks, reader.training
    reader.train(False)
    try:
        rows = reader.embedding(tokens, layout).split(layout.lengths.tolist())
        norms = [product_norms(stack, sequence) for sequence in rows]
    finally:
        reader.train(was_training)
    filled = np.full((len(norms), layout.longest), np.nan)
    for i, own in enumerate(norms):
        filled[i, : len(own)] = own
    return np.nanmean(filled, axis=0)


def product_norms(stack: RecurrentStack, rows: Tensor) -> list[float]:
    """Of one sequence (T, D), at distances 0 to T - 1."""
    weights, states = stack.weights(), stack.start(1, rows)
    shapes = [state.shape for state in states]

    def step(joint: Tensor, x: Tensor) -> Tensor:
        parts = joint.split([shape.numel() for shape in shapes])
        layers = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return torch.cat([state.flatten() for state in stack.step(x[None], layers, weights)[1]])

    joints = [torch.cat([state.flatten() for state in states])]
    for x in rows:
        joints.append(step(joints[-1], x))
    are_finite = torch.stack(joints).isfinite().all(1)
    if not are_finite.all():
        n_read = int(are_finite.int().argmin())
        raise RegardError(f"the states of this net are not finite numbers after {n_read:,} tokens; lower the distance")
    product = torch.eye(len(joints[0]), dtype=torch.float64, device=rows.device)
    norms, log_scale = [1.0], 0.0
    for x, before in zip(rows.flip(0)[:-1], joints[-2::-1], strict=False):
        product = product @ torch.func.jacrev(step)(before, x).double()
        size = float(product.abs().max())
        if size == 0:
            return norms + [0.0] * (len(rows) - len(norms))
        product, log_scale = product / size, log_scale + math.log(size)  # or it would leave the range of numbers
        norms.append(power(log_scale + math.log(float(torch.linalg.eigvalsh(product.T @ product)[-1])) / 2))
    return norms


def power(exponent: float) -> float:
    """e to the exponent; inf, where that is beyond the range of floats."""
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


@contextmanager
def noting_states(reader: Reader) -> Iterator[list[Tensor]]:
    """What stands for h while this lasts.  To each state of a recurrent net a zero is added, whose gradient is the
    state's, and cells read step by step; without such states it is the embedded tokens."""
    stacks = [module for module in reader.modules() if isinstance(module, RecurrentStack)]
    cells = [cell for stack in stacks for cell in stack.forwards if not stack.bidirectional]
    noted: list[Tensor] = []

    def read(cell: Cell, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        noted.append(x.new_zeros(x.shape[1], *state.shape).requires_grad_())
        return cell.readable(x, state, noted[-1])

    def embed(module: nn.Module, arguments: tuple[Tensor, Layout], output: Tensor) -> Tensor:
        noted.append((output.detach() / reader.embedding.scale).requires_grad_())
        return noted[-1] * reader.embedding.scale

    hooks = [] if cells else [reader.embedding.register_forward_hook(embed)]
    for cell in cells:
        cell.forward = partial(read, cell)  # type: ignore[method-assign]
    try:
        yield noted
    finally:
        for hook in hooks:
            hook.remove()
        for cell in cells:
            del cell.forward
