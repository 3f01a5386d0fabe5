"""Documents with a label each, and the batches made of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import SequenceBatch, flat
from regard.data.batching.packing import select
from regard.data.batching.shards import TokenShard
from regard.data.files.labelled import Labelled
from regard.data.files.splits import normalized
from regard.data.notes import Notes
from regard.data.report import UNLIMITED, Part, Row
from regard.tasks.framing import Framing
from regard.tasks.setup import Setup
from regard.text.dropout import SampledTexts


@dataclass(frozen=True)
class DocumentBatch(SequenceBatch):
    """Flat rows of tokens, and one label for each document."""

    labels: Tensor  # B

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences


class Documents:
    """One part of a data set: tokenized once, long documents cut, and every decision in `notes`.  A document is a
    text, or a pair of them, in its `framing`.

    What is learned from has no empty documents; what is only answered keeps them, so that each gets an answer.
    """

    def __init__(self, labelled: Labelled, label_set: Sequence[str], framing: Framing, setup: Setup, to_learn: bool):
        self.labelled, self.setup, self.framing = labelled, setup, framing
        self.labels = labelled.ids(label_set)
        self.parts: list[TokenShard] = [setup.tokens(column) for column in labelled.examples.columns]
        whole_lengths = framing.lengths([part.lengths for part in self.parts])
        self.notes = Notes()
        self.notes.update(labelled.examples.notes)
        self.kept = np.arange(len(labelled))
        if to_learn:
            self.kept, dropped = select(labelled.examples, [part.lengths for part in self.parts], UNLIMITED)
            self.notes.update(dropped)
        self.long = np.flatnonzero(whole_lengths > framing.max_length)
        self.cut_note = f"cut to the {framing.keep} {framing.max_length:,} tokens"
        if len(self.long):
            self.notes.add(self.cut_note, labelled.examples.where(int(self.long[0])), len(self.long))
        self.lengths = np.minimum(whole_lengths[self.kept], framing.max_length)

    def __len__(self) -> int:
        return len(self.kept)

    def documents(self, indices: np.ndarray) -> list[np.ndarray]:
        """Tokens of the documents at these places of `kept`."""
        return [self.framing.join([part[i] for part in self.parts]) for i in self.kept[indices]]

    def for_report(self) -> Part:
        """The texts for the doctor: one is called so; the two of a pair are called what their columns are."""
        examples = self.labelled.examples
        return Part(replace(examples, names=("text",)) if len(examples.names) == 1 else examples, self.parts)

    def describe(self) -> str:
        return f"{len(self):,} texts, {sum(len(part.ids) for part in self.parts):,} tokens"

    def batch(self, indices: np.ndarray, epoch: int | None = None) -> DocumentBatch:
        """As an epoch of training has them: with BPE-dropout the cut into tokens depends on (epoch, document) alone."""
        places, is_drawn = self.kept[indices], epoch is not None and self.setup.dropout
        documents = self.sampled(places, epoch or 0) if is_drawn else self.documents(indices)
        lines = [self.labelled.examples.where(i) for i in places]
        return DocumentBatch(lines, *flat(documents), torch.from_numpy(self.labels[places]))

    @cached_property
    def samplers(self) -> list[SampledTexts]:
        return self.setup.samplers(self.labelled.examples.columns)

    def sampled(self, places: np.ndarray, epoch: int) -> list[np.ndarray]:
        keys = np.uint64(epoch << 40) + places.astype(np.uint64)
        drawn = [sampler.sample(places, keys) for sampler in self.samplers]
        return [self.framing.join(parts) for parts in zip(*drawn, strict=True)]


def label_rows(name: str, part: Labelled, labels: Sequence[str], names: Sequence[str]) -> list[Row]:
    """How many texts each label has, and how many equal texts have another label."""
    counts = Counter(part.labels)
    rows = [
        Row(name, f"label {shown}", f"{counts[label]:,} ({counts[label] / len(part):.1%})")
        for label, shown in zip(labels, names, strict=True)
    ]
    first: dict[str, str] = {}
    keys = [normalized(text) for text in part.texts]
    differ = [i for i, key in enumerate(keys) if first.setdefault(key, part.labels[i]) != part.labels[i]]
    where = part.examples.where(differ[0]) if differ else ""
    return [*rows, Row(name, "an earlier text with another label", f"{len(differ):,}", where)]
