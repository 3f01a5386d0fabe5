"""Passages of running text as batches, and the probability of a whole text."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import Batch, middle, n_within
from regard.data.batching.streams import Stream, in_batches
from regard.models.writing import TextModel, TextWriter
from regard.nn.layout import Ragged, filled
from regard.nn.loss import IGNORED
from regard.nn.state import State
from regard.processes import in_parts, spread


@dataclass(frozen=True)
class TextBatch(Batch):
    """Flat rows.  The model reads tokens and should write labels, the same one place further."""

    tokens: Tensor  # N
    labels: Tensor  # N
    layout: Ragged
    begins: bool = True  # False: these windows go on where those of the batch before ended
    n_added: int = 0  # rows that `filled` added
    shard: int = 0  # the virtual one, which has a state of its own
    is_carried: bool = False  # the state after it is the one before the next batch

    is_fillable: ClassVar[bool] = True

    @property
    def n_targets(self) -> int:
        return self.layout.n_rows - self.n_added

    n_tokens = n_targets  # every token that is read has its label

    def filled(self) -> Self:
        """The same with lines added that nothing is learned from, so that all batches together have few shapes; full
        windows have one as they are."""
        if self.layout.is_full:
            return self
        (layout,) = filled(self.layout)
        n = layout.n_rows - self.layout.n_rows
        tokens, labels = F.pad(self.tokens, (0, n)), F.pad(self.labels, (0, n), value=IGNORED)
        return replace(self, tokens=tokens, labels=labels, layout=layout, n_added=n)

    def halves(self) -> list[Self]:
        return [self.between(*ends) for ends in middle(self.layout)] if not self.is_carried else []

    def between(self, first: int, last: int) -> Self:
        rows = self.layout.rows_of(first, last)
        return replace(
            self,
            lines=self.lines[first:last],
            tokens=self.tokens[rows],
            labels=self.labels[rows],
            layout=self.layout.part(first, last),
            n_added=n_within(rows, self.layout.n_rows, self.n_added),
        )


Measure = Callable[[TextBatch], Tensor]


def make_batch(stream: Stream, windows: np.ndarray, begins: bool = True, shard: int = 0) -> TextBatch:
    """Windows (n, 2) of a stream.  A line that is a text of its own begins with <s>."""
    places = np.concatenate([np.arange(start, stop) for start, stop in windows])
    tokens, layout = stream.tokens[places], Ragged(windows[:, 1] - windows[:, 0])
    if stream.unit == "lines":
        tokens[tokens == stream.end_id] = stream.start_id  # no line sees the end of the one before
    lines = [stream.where(int(start) + 1) for start in windows[:, 0]]
    labels = torch.from_numpy(stream.tokens[places + 1])
    return TextBatch(lines, torch.from_numpy(tokens), labels, layout, begins, shard=shard)


def total_nats(model: TextModel, stream: Stream, window: int, batch_tokens: int, context: int = 0) -> float:
    """-log P of the whole text, every token once, in windows that know nothing of those before them."""

    def nats(batch: TextBatch) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout)

    return once_each(nats, model.device, stream, window, batch_tokens, context)


def accuracy(model: TextModel, stream: Stream, window: int, batch_tokens: int, context: int = 0) -> float:
    """The percentage of tokens that the model predicts correctly, read in the same windows."""

    def n_right(batch: TextBatch) -> Tensor:
        return (model.guesses(batch.tokens, batch.layout) == batch.labels).sum()

    return 100 * once_each(n_right, model.device, stream, window, batch_tokens, context) / len(stream)


@torch.no_grad()
def once_each(
    measure: Measure, device: torch.device, stream: Stream, width: int, batch_tokens: int, context: int
) -> float:
    """The sum of what `measure` makes of the batches of a whole text, every token once.

    With a context, each window but the first begins with so many tokens of the one before, which do not count again:
    log P(rest | context) = log P(context, rest) - log P(context).
    """

    def total(windows: np.ndarray) -> float:
        groups = in_batches(windows, np.arange(len(windows)), batch_tokens)
        return sum(map(float, spread(groups, lambda group: measure(make_batch(stream, group).to(device)))))

    if stream.unit == "lines":
        return total(stream.line_windows(width))
    starts = np.arange(0, max(len(stream) - context, 1), width - context)
    whole = total(np.stack([starts, np.minimum(starts + width, len(stream))], 1))
    again = starts[1:]
    return whole - total(np.stack([again, again + context], 1)) if context and len(again) else whole


@torch.no_grad()
def carried_nats(model: TextWriter, stream: Stream, window: int, n_columns: int) -> float:
    """The same with the state carried on, in columns side by side: all but their first tokens know what came before."""
    n = min(n_columns, len(stream))
    columns = stream.columns(n, window)
    below = int(columns[-1][-1, 1])  # the few tokens that have no column go on from the last one

    def nats_of(run: tuple[int, int]) -> Tensor:
        """Of some columns."""
        first, last = run
        total = torch.zeros((), dtype=torch.float64)
        state: State | None = None
        for windows in columns:
            batch = make_batch(stream, windows[first:last]).to(model.device)
            nats, state = model.carried_nats(batch.tokens, batch.labels, batch.layout, state)
            total += float(nats)
        if last == n and below < len(stream):
            assert state is not None
            state.select(torch.tensor([last - first - 1], device=model.device))
            batch = make_batch(stream, np.array([[below, len(stream)]])).to(model.device)
            total += float(model.carried_nats(batch.tokens, batch.labels, batch.layout, state)[0])
        return total

    return sum(map(float, spread(in_parts(n), nats_of)))
