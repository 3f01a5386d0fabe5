"""Pairs of token sequences, source and target, and the batches made of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import Batch, middle, n_within
from regard.data.batching.computed_order import FitItems, in_pools, sample
from regard.data.batching.packing import select
from regard.data.files.reading import Examples
from regard.data.report import MeasuredPart
from regard.nn.layout import Ragged, filled
from regard.nn.loss import IGNORED
from regard.tasks.framing import Frame
from regard.tasks.setup import ExampleSet, LargeExampleSet, Setup
from regard.text.tokenizer import Tokenizer

Weigh = Callable[..., np.ndarray]  # what a batch counts of the lengths of source and target


@dataclass(frozen=True)
class PairBatch(Batch):
    """Flat rows of both sides.  The decoder reads <s> y1 .. yn and should write y1 .. yn </s>."""

    source: Tensor  # N ids
    source_layout: Ragged
    target: Tensor  # M ids, what the decoder reads
    labels: Tensor  # M ids, what it should write
    target_layout: Ragged
    n_added: tuple[int, int] = (0, 0)  # rows of source and target that `filled` added

    is_fillable: ClassVar[bool] = True

    @property
    def n_targets(self) -> int:
        return self.target_layout.n_rows - self.n_added[1]

    @property
    def n_tokens(self) -> int:
        return self.source_layout.n_rows + self.target_layout.n_rows - sum(self.n_added)

    def filled(self) -> Self:
        """The same with sentences added that nothing is learned from, so that all batches together have few shapes."""
        source_layout, target_layout = filled(self.source_layout, self.target_layout)
        n, m = source_layout.n_rows - self.source_layout.n_rows, target_layout.n_rows - self.target_layout.n_rows
        return replace(
            self,
            source=F.pad(self.source, (0, n)),
            source_layout=source_layout,
            target=F.pad(self.target, (0, m)),
            labels=F.pad(self.labels, (0, m), value=IGNORED),
            target_layout=target_layout,
            n_added=(n, m),
        )

    def halves(self) -> list[Self]:
        return [self.between(*ends) for ends in middle(self.source_layout, self.target_layout)]

    def between(self, first: int, last: int) -> Self:
        layouts = self.source_layout, self.target_layout
        source, target = (layout.rows_of(first, last) for layout in layouts)
        added = zip((source, target), layouts, self.n_added, strict=True)
        n, m = (n_within(rows, layout.n_rows, n_added) for rows, layout, n_added in added)
        return replace(
            self,
            lines=self.lines[first:last],
            source=self.source[source],
            source_layout=self.source_layout.part(first, last),
            target=self.target[target],
            labels=self.labels[target],
            target_layout=self.target_layout.part(first, last),
            n_added=(n, m),
        )


def make_batch(sources: list[np.ndarray], targets: list[np.ndarray], lines: list[str], frame: Frame) -> PairBatch:
    """A source ends with </s>, so that an encoder sees where it ends."""
    before, after = np.array(frame.before, np.int64), np.array([frame.closing], np.int64)
    source = np.concatenate([part for s in sources for part in (before, s, after)])
    source_layout = Ragged([len(before) + len(s) + 1 for s in sources])
    return PairBatch(lines, torch.from_numpy(source.astype(np.int64)), source_layout, *framed(targets, frame))


def framed(targets: list[np.ndarray], frame: Frame) -> tuple[Tensor, Tensor, Ragged]:
    """What a decoder reads, what it should write, and how both lie."""
    start, end = np.array([frame.start], np.int64), np.array([frame.end], np.int64)
    target = np.concatenate([part for t in targets for part in (start, t)])
    labels = np.concatenate([part for t in targets for part in (t, end)])
    layout = Ragged([len(t) + 1 for t in targets])
    return torch.from_numpy(target.astype(np.int64)), torch.from_numpy(labels.astype(np.int64)), layout


class PairSet(ExampleSet):
    """One part of a data set, left without what cannot be used (see `notes`)."""

    def __init__(self, examples: Examples, setup: Setup, frame: Frame, weigh: Weigh = np.maximum):
        super().__init__(examples, setup)
        self.frame, self.max_length = frame, setup.data.max_length
        side_lengths = [side.lengths for side in self.shards]
        long = np.flatnonzero(side_lengths[0] > self.max_length)
        if frame.cut and len(long):
            self.notes.add(f"cut after {self.max_length} tokens", examples.where(int(long[0])), len(long))
            side_lengths[0] = np.minimum(side_lengths[0], self.max_length)
        self.kept, dropped = select(examples, side_lengths, self.max_length)
        kept_lengths = [lengths[self.kept] for lengths in side_lengths]
        self.notes.update(dropped)
        # Tokens of the longer side, with its start or end; or of both.
        self.lengths = weigh(*(lengths + 1 for lengths in kept_lengths))
        self.n_target_tokens = int(kept_lengths[1].sum())

    @property
    def tokenizers(self) -> list[Tokenizer]:
        return [self.setup.tokenizer, self.setup.tokenizer.of_targets]

    def describe(self) -> str:
        return f"{len(self):,} pairs, {self.n_target_tokens:,} target tokens"

    def for_report(self) -> MeasuredPart:
        return MeasuredPart(self.examples, self.shards)

    def texts(self, side: int) -> list[str]:
        return [self.examples.columns[side][i] for i in self.kept]

    def batch(self, indices: np.ndarray, epoch: int | None = None) -> PairBatch:
        """The pairs at these places of `kept`."""
        sources, targets = self.columns(indices, epoch)
        return make_batch(sources, targets, self.lines(indices), self.frame)

    def columns(self, indices: np.ndarray, epoch: int | None = None) -> list[list[np.ndarray]]:
        """Sources and targets as tokens; with BPE-dropout their cut into tokens depends on the epoch alone."""
        places = self.kept[indices]
        columns = [[tokens[i] for i in places] for tokens in self.shards]
        if epoch is not None and self.setup.dropout:
            for side, sampler in enumerate(self.samplers):
                drawn = sampler.sample(places, keys(epoch, places, side))  # too long: cut as it usually is
                both = zip(drawn, columns[side], strict=True)
                columns[side] = [new if len(new) <= self.max_length else usual for new, usual in both]
        if self.frame.cut:
            columns[0] = [ids[: self.max_length] for ids in columns[0]]
        return columns


class LargePairSet(LargeExampleSet, PairSet):
    """Pairs that stay on disk."""

    def __init__(self, examples: Examples, setup: Setup, frame: Frame, weigh: Weigh = np.maximum):
        LargeExampleSet.__init__(self, examples, setup)
        self.frame, self.max_length, self.weigh = frame, setup.data.max_length, weigh
        for places in in_pools(len(examples)) if frame.cut else ():
            long = places[LargeExampleSet.side_lengths(self, places)[0] > self.max_length]
            if len(long):
                self.notes.add(f"cut after {self.max_length} tokens", examples.where(int(long[0])), len(long))
        self.n_pairs, (_, self.n_target_tokens) = self.count(self.max_length)

    def side_lengths(self, places: np.ndarray) -> list[np.ndarray]:
        sources, targets = super().side_lengths(places)
        return [np.minimum(sources, self.max_length) if self.frame.cut else sources, targets]

    def measure(self, places: np.ndarray) -> FitItems:
        sides = self.side_lengths(places)
        is_fit = self.fit(sides, self.max_length)
        return places[is_fit], self.weigh(*(side[is_fit] + 1 for side in sides))

    def describe(self) -> str:
        return f"{self.n_pairs:,} pairs, {self.n_target_tokens:,} target tokens"

    def for_report(self) -> MeasuredPart:
        """Of some of them, chosen by chance."""
        places = sample(len(self.examples))
        shards = [tokens.take(places) for tokens in self.shards]
        return MeasuredPart(self.examples.take(places), shards, n_all=len(self.examples))


def keys(epoch: int, examples: np.ndarray, side: int) -> np.ndarray:
    """One number for each (epoch, example, side), different for different ones."""
    return np.uint64(epoch << 40) + (examples.astype(np.uint64) << np.uint64(1)) + np.uint64(side)
