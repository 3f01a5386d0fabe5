"""Pairs of texts that belong together, and the batches made of them: in a batch, the texts of others are negatives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import SequenceBatch, flat
from regard.data.batching.packing import select
from regard.data.files.reading import Examples
from regard.data.files.splits import normalized
from regard.data.report import UNLIMITED
from regard.tasks.framing import Framing
from regard.tasks.setup import ExampleSet, Setup


@dataclass(frozen=True)
class ContrastBatch(SequenceBatch):
    """Flat rows of 2 B texts: the first of all pairs, then the second of all pairs."""

    texts: Tensor  # (2, B), a number for each text; equal texts have the same

    @property
    def n_targets(self) -> int:
        return self.texts.shape[1]


class TextPairs(ExampleSet):
    """One part of a data set; what is too long is cut, and noted."""

    def __init__(self, examples: Examples, framing: Framing, setup: Setup):
        super().__init__(examples, setup)
        self.framing = framing
        whole = [framing.lengths([side.lengths]) for side in self.shards]
        self.kept, dropped = select(examples, [side.lengths for side in self.shards], UNLIMITED)
        self.notes.update(dropped)
        for lengths in whole:
            long = np.flatnonzero(lengths > framing.max_length)
            if len(long):
                note = f"cut to the first {framing.max_length:,} tokens"
                self.notes.add(note, examples.where(int(long[0])), len(long))
        self.lengths = np.sum([np.minimum(lengths, framing.max_length) for lengths in whole], 0)[self.kept]
        numbers: dict[str, int] = {}  # of each text, on either side
        self.numbers = np.array(
            [[numbers.setdefault(normalized(text), len(numbers)) for text in column] for column in examples.columns]
        )

    def describe(self) -> str:
        return f"{len(self):,} pairs, {int(self.lengths.sum()):,} tokens"

    def documents(self, side: int, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Tokens of one side of the pairs at these places of `kept`."""
        return [self.framing.join([self.shards[side][i]]) for i in self.kept[np.asarray(indices)]]

    def batch(self, indices: np.ndarray) -> ContrastBatch:
        documents = [text for side in (0, 1) for text in self.documents(side, indices)]
        numbers = torch.from_numpy(self.numbers[:, self.kept[indices]].astype(np.int64))
        return ContrastBatch(self.lines(indices), *flat(documents), numbers)
