"""How far back the loss of a trained language model reaches, measured on a text."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.streams import Stream
from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.models.reach import gradient_reach
from regard.nn.linear import logits
from regard.tasks.language.batches import make_batch

FADED = 0.01  # the share of distance 0 below which a gradient has faded


@dataclass(frozen=True, eq=False)
class Reached:
    norms: np.ndarray  # |∂L/∂h_{T-d}| for d = 0, 1, 2 ..., the mean over the passages
    n_passages: int

    @property
    def shares(self) -> np.ndarray:
        """Of the norm at distance 0: states of different models have different scales."""
        return self.norms / self.norms[0]

    @property
    def faded(self) -> int | None:
        """The first distance from which on all shares are below `FADED`; None: it does not fade."""
        last = np.flatnonzero(self.shares >= FADED)[-1]
        return None if last + 1 == len(self.norms) else int(last) + 1


def measure_reach(model: LanguageModel, stream: Stream, distance: int, n_passages: int) -> Reached:
    """Passages of distance + 1 tokens, spread evenly over the text; L is the loss of the token that follows them."""
    if distance < 1 or n_passages < 1:
        raise RegardError(f"distance and passages must be at least 1, got {distance} and {n_passages}")
    if model.is_counted:
        raise RegardError("this model was trained by counting: it has no gradients whose reach could be measured")
    length = distance + 1
    if length > model.reader.max_length:
        raise RegardError(f"{length} tokens do not fit the model's {model.reader.max_length}; lower the distance")
    if length > len(stream):
        raise RegardError(f"a text of {len(stream):,} tokens has no passage of {length}; lower the distance")
    starts = np.unique(np.linspace(0, len(stream) - length, n_passages).astype(np.int64))
    batch = make_batch(stream, np.stack([starts, starts + length], 1)).to(model.device)
    next_tokens = batch.labels[length - 1 :: length]

    def loss(last: Tensor) -> Tensor:
        return F.cross_entropy(logits(last, model.output_table), next_tokens, reduction="none")

    return Reached(gradient_reach(model.reader, batch.tokens, batch.layout, loss), len(starts))
