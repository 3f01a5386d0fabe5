"""Pairs of token sequences, source and target, and the batches made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import Batch
from regard.data.batching.packing import Packing
from regard.data.batching.selection import select
from regard.data.batching.shards import TokenShard, shard
from regard.data.config import DataConfig
from regard.data.files.reading import read_examples
from regard.data.notes import Notes
from regard.errors import ConfigError
from regard.nn.layout import Ragged, filled
from regard.nn.loss import IGNORED
from regard.text.dropout import SampledTexts
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Frame:
    """The tokens around a pair: a source is read as `before` x1 .. xn `after`, a target as `start` y1 .. yn `end`."""

    start: int
    end: int
    before: tuple[int, ...] = ()
    after: int | None = None  # None: `end`
    cut: bool = False  # of a source that is too long the beginning is read; otherwise it is dropped, or split

    @property
    def closing(self) -> int:
        return self.end if self.after is None else self.after

    def source(self, ids: Sequence[int]) -> list[int]:
        return [*self.before, *ids, self.closing]


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


def make_batch(sources: list[np.ndarray], targets: list[np.ndarray], lines: list[str], frame: Frame) -> PairBatch:
    """A source ends with </s>, so that an encoder sees where it ends."""
    before, after = np.array(frame.before, np.int64), np.array([frame.closing], np.int64)
    start, end = np.array([frame.start], np.int64), np.array([frame.end], np.int64)
    source = np.concatenate([part for s in sources for part in (before, s, after)])
    target = np.concatenate([part for t in targets for part in (start, t)])
    labels = np.concatenate([part for t in targets for part in (t, end)])
    return PairBatch(
        lines,
        torch.from_numpy(source.astype(np.int64)),
        Ragged([len(before) + len(s) + 1 for s in sources]),
        torch.from_numpy(target.astype(np.int64)),
        torch.from_numpy(labels.astype(np.int64)),
        Ragged([len(t) + 1 for t in targets]),
    )


class PairSet:
    """One split of a data set: read, tokenised once, and left without what cannot be used (see `notes`)."""

    def __init__(self, files: tuple[str, ...], config: DataConfig, tokenizer: Tokenizer, cache: Path, frame: Frame):
        self.frame = frame
        self.examples = read_examples(files, config.columns, config.root)
        if len(self.examples.columns) != 2:
            names = ", ".join(self.examples.names)
            raise ConfigError(f"a pair has two columns, source and target; {', '.join(files)} give {names}")
        self.tokenizer = tokenizer
        content = tokenizer.to_json()
        self.sides: list[TokenShard] = [shard(column, tokenizer, content, cache) for column in self.examples.columns]
        self.lengths = [side.lengths for side in self.sides]
        self.max_length = config.max_length
        self.notes = Notes()
        self.notes.update(self.examples.notes)
        long = np.flatnonzero(self.lengths[0] > config.max_length)
        if frame.cut and len(long):
            self.notes.add(f"cut after {config.max_length} tokens", self.examples.where(int(long[0])), len(long))
            self.lengths[0] = np.minimum(self.lengths[0], config.max_length)
        self.kept, dropped = select(self.examples, self.lengths, config.max_length)
        self.samplers: dict[tuple[int, float], SampledTexts] = {}
        self.notes.update(dropped)

    def __len__(self) -> int:
        return len(self.kept)

    def packing(
        self, budget: int, order: str, seed: int, weigh: Callable[..., np.ndarray] = np.maximum
    ) -> Packing:  # fmt: skip
        """Batches by the tokens of the longer side, with its start or end; or of both (`weigh`)."""
        lengths = weigh(*(of_side[self.kept] + 1 for of_side in self.lengths))
        return Packing(lengths, budget, order, seed)

    def sampled(self, side: int, rate: float) -> SampledTexts:
        if (side, rate) not in self.samplers:
            self.samplers[side, rate] = SampledTexts(self.examples.columns[side], self.tokenizer.pairs, rate)
        return self.samplers[side, rate]

    def texts(self, side: int) -> list[str]:
        return [self.examples.columns[side][i] for i in self.kept]

    def batch(self, indices: np.ndarray, dropout: float = 0.0, draw: int = 0) -> PairBatch:
        """The pairs at these places of `kept`."""
        sources, targets = self.columns(indices, dropout, draw)
        return make_batch(sources, targets, self.lines(indices), self.frame)

    def columns(self, indices: np.ndarray, dropout: float, draw: int) -> list[list[np.ndarray]]:
        """Sources and targets as tokens; with BPE-dropout their cut into tokens depends on `draw` alone."""
        places = self.kept[indices]
        columns = []
        for side, tokens in enumerate(self.sides):
            column = [tokens[i] for i in places]
            if dropout:
                drawn = self.sampled(side, dropout).sample(places, keys(draw, places, side))
                fits = [len(ids) <= self.max_length for ids in drawn]  # where not, the text is cut as it usually is
                column = [new if fit else usual for new, fit, usual in zip(drawn, fits, column, strict=True)]
            columns.append(column)
        if self.frame.cut:
            columns[0] = [ids[: self.max_length] for ids in columns[0]]
        return columns

    def lines(self, indices: np.ndarray) -> list[str]:
        return [self.examples.where(i) for i in self.kept[indices]]


class PairData:
    """The training and validation pairs of a recipe.  `dropout` is the chance to leave out a merge (BPE-dropout)."""

    def __init__(self, config: DataConfig, tokenizer: Tokenizer, dropout: float, cache: Path, seed: int, frame: Frame):
        self.config, self.tokenizer, self.dropout, self.seed, self.frame = config, tokenizer, dropout, seed, frame
        if config.valid_share or config.test_share:
            raise ConfigError("pairs are validated and tested on files of their own: set data.valid and data.test")
        self.train = PairSet(config.train, config, tokenizer, cache, frame)
        self.valid = PairSet(config.valid, config, tokenizer, cache, frame) if config.valid else None


def keys(draw: int, examples: np.ndarray, side: int) -> np.ndarray:
    """One number for each (draw, example, side), different for different ones."""
    return np.uint64(draw << 40) + (examples.astype(np.uint64) << np.uint64(1)) + np.uint64(side)
