"""Documents with a label each, and the batches made of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import SequenceBatch, flat, middle, n_within
from regard.data.batching.computed_order import FitItems, in_pools, sample
from regard.data.batching.packing import cut, select
from regard.data.files.labelled import Labelled
from regard.data.files.splits import normalized
from regard.data.report import UNLIMITED, MeasuredPart, Row
from regard.nn.layout import filled
from regard.nn.loss import IGNORED
from regard.tasks.framing import Framing
from regard.tasks.setup import ExampleSet, LargeExampleSet, Setup

SHOWN_CHARACTERS = 200  # of a text


@dataclass(frozen=True)
class DocumentBatch(SequenceBatch):
    """Flat rows of tokens, and one label for each document."""

    labels: Tensor  # B
    n_added: tuple[int, int] = (0, 0)  # rows and documents that `filled` added

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences - self.n_added[1]

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows - self.n_added[0]

    @property
    def is_fillable(self) -> bool:  # type: ignore[override]
        """Labels that are numbers, such as ratings, have none that is ignored."""
        return not self.labels.is_floating_point()

    def filled(self) -> Self:
        """The same with documents added that nothing is learned from, so that all batches together have few shapes."""
        if not self.is_fillable:
            return self
        (layout,) = filled(self.layout)
        n_rows, n_documents = layout.n_rows - self.layout.n_rows, layout.n_sequences - self.layout.n_sequences
        tokens, labels = F.pad(self.tokens, (0, n_rows)), F.pad(self.labels, (0, n_documents), value=IGNORED)
        return replace(self, tokens=tokens, labels=labels, layout=layout, n_added=(n_rows, n_documents))

    def halves(self) -> list[Self]:
        return [self.between(*ends) for ends in middle(self.layout)]

    def between(self, first: int, last: int) -> Self:
        rows, documents = self.layout.rows_of(first, last), slice(first, last)
        n_rows, n_documents = self.layout.n_rows, self.layout.n_sequences
        return replace(
            self,
            lines=self.lines[documents],
            tokens=self.tokens[rows],
            layout=self.layout.part(first, last),
            labels=self.labels[documents],
            n_added=(n_within(rows, n_rows, self.n_added[0]), n_within(documents, n_documents, self.n_added[1])),
        )


class Documents(ExampleSet):
    """One part of a data set: long documents cut, and every decision in `notes`.  A document is a text, or a pair of
    them, in its `framing`.

    What is learned from has no empty documents; what is only answered keeps them, so that each gets an answer.
    """

    def __init__(self, labeled: Labelled, label_set: Sequence[str], framing: Framing, setup: Setup, to_learn: bool):
        labels = labeled.ids(label_set)
        super().__init__(labeled.examples, setup)
        self.raw, self.framing, self.labels = labeled, framing, labels
        lengths = [column.lengths for column in self.shards]
        whole_lengths = framing.lengths(lengths)
        if to_learn:
            self.kept, dropped = select(self.examples, lengths, UNLIMITED)
            self.notes.update(dropped)
        self.note_long(np.flatnonzero(whole_lengths > framing.max_length))
        self.lengths = np.minimum(whole_lengths[self.kept], framing.max_length)

    @property
    def cut_note(self) -> str:
        return f"cut to the {self.framing.keep} {self.framing.max_length:,} tokens"

    def note_long(self, places: np.ndarray) -> None:
        if len(places):
            self.notes.add(self.cut_note, self.examples.where(int(places[0])), len(places))

    def label_counts(self, n_labels: int) -> np.ndarray:
        return np.bincount(self.labels[self.kept], minlength=n_labels)

    def in_order(self, budget: int) -> Iterator[np.ndarray]:
        yield from cut(np.arange(len(self)), self.lengths, budget)

    def documents(self, indices: np.ndarray) -> list[np.ndarray]:
        """Tokens of the documents at these places of `kept`."""
        return [self.framing.join([column[i] for column in self.shards]) for i in self.kept[indices]]

    def shown(self, i: int) -> str:
        return self.raw.texts[i][:SHOWN_CHARACTERS]

    def for_report(self) -> tuple[MeasuredPart, Labelled]:
        """The texts for the doctor: one is called so; the two of a pair are called what their columns are."""
        names = ("text",) if len(self.shards) == 1 else self.examples.names
        return MeasuredPart(replace(self.examples, names=names), self.shards), self.raw

    def describe(self) -> str:
        return f"{len(self):,} texts, {sum(len(column.ids) for column in self.shards):,} tokens"

    def batch(self, indices: np.ndarray, epoch: int | None = None) -> DocumentBatch:
        """As an epoch of training has them: with BPE-dropout the cut into tokens depends on (epoch, document) alone."""
        places = self.kept[indices]
        if epoch is not None and self.setup.dropout:
            keys = np.uint64(epoch << 40) + places.astype(np.uint64)
            drawn = [sampler.sample(places, keys) for sampler in self.samplers]
            documents = [self.framing.join(parts) for parts in zip(*drawn, strict=True)]
        else:
            documents = self.documents(indices)
        return DocumentBatch(self.lines(indices), *flat(documents), torch.from_numpy(self.labels[places]))


class LargeDocuments(LargeExampleSet, Documents):
    """Documents that stay on disk."""

    def __init__(self, labeled: Labelled, label_set: Sequence[str], framing: Framing, setup: Setup, to_learn: bool):
        self.labels = labeled.ids(label_set)
        LargeExampleSet.__init__(self, labeled.examples, setup)
        self.raw, self.framing = labeled, framing
        self.n_fit, self.n_tokens = self.count(UNLIMITED)
        for places in in_pools(len(labeled)):
            self.note_long(places[framing.lengths(self.side_lengths(places)) > framing.max_length])

    def measure(self, places: np.ndarray) -> FitItems:
        sides = self.side_lengths(places)
        is_fit = self.fit(sides, UNLIMITED)
        return places[is_fit], np.minimum(self.framing.lengths(sides), self.framing.max_length)[is_fit]

    def label_counts(self, n_labels: int) -> np.ndarray:
        counts = np.zeros(n_labels, np.int64)
        for places in in_pools(len(self.kept)):
            counts += np.bincount(self.labels[self.measure(places)[0]], minlength=n_labels)
        return counts

    def in_order(self, budget: int) -> Iterator[np.ndarray]:
        for places in in_pools(len(self.kept)):
            fit, lengths = self.measure(places)
            yield from (fit[chosen] for chosen in cut(np.arange(len(fit)), lengths, budget))

    def for_report(self) -> tuple[MeasuredPart, Labelled]:
        places = sample(len(self.examples))
        raw = self.raw.take(places)
        names = ("text",) if len(self.shards) == 1 else self.examples.names
        shards = [tokens.take(places) for tokens in self.shards]
        return MeasuredPart(replace(raw.examples, names=names), shards, n_all=len(self.examples)), raw

    def describe(self) -> str:
        return f"{self.n_fit:,} texts, {sum(self.n_tokens):,} tokens"


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
