"""Texts with a label each.  Labels are strings, and their set is what training has."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.reading import Examples, read_examples
from regard.data.files.splits import Divisible, Parts, read_parts
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

SHOWN = 10  # labels named in a message
MOST_DISTINCT = 0.5  # more different labels than half the examples are not labels ...
FEW = 20  # ... but so few examples may be a trial


@dataclass(frozen=True)
class Labelled(Divisible):
    """Text i is `examples.columns[0][i]`, of a pair `columns[1][i]` is the second; its label is `labels[i]`.  The texts
    are as the file has them."""

    examples: Examples  # the texts alone: one column, or two
    labels: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def texts(self) -> list[str]:
        """Each as a line; the two of a pair have a tab between them, and no other before it."""
        if len(self.examples.columns) == 1:
            return self.examples.columns[0]
        return [first.replace("\t", " ") + "\t" + second for first, second in zip(*self.examples.columns, strict=True)]

    def take(self, places: np.ndarray) -> "Labelled":
        return Labelled(self.examples.take(places), [self.labels[i] for i in places])

    def keys(self) -> list[str]:
        """Equal texts stay together."""
        return self.texts

    @property
    def notes(self) -> Notes:  # type: ignore[override]
        return self.examples.notes

    def ids(self, label_set: Sequence[str]) -> np.ndarray:
        """The place of each label in `label_set`; one that is not there is an error."""
        place = {label: i for i, label in enumerate(label_set)}
        for i, label in enumerate(self.labels):
            if label not in place:
                raise not_in_training(self.examples.where(i, -1), "label", label, label_set)
        return np.array([place[label] for label in self.labels], np.int64)


def read_labelled(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Labelled:
    """Tables with a column of texts, or two of pairs, and one of labels, named in this order, or such plain files.

    Space around a label does not count; an empty label is an error.
    """
    examples = read_examples(files, columns, root)
    if len(examples.columns) not in (2, 3):
        given = f"{', '.join(files)} give {', '.join(examples.names)}"
        raise ConfigError(f"labeled text has two columns (text, label), or three for pairs of texts; {given}")
    texts, labels = examples.columns[:-1], [label.strip() for label in examples.columns[-1]]
    if "" in labels:
        raise DataError(f"{examples.where(labels.index(''), -1)} has no label; give it one or take it out")
    return Labelled(replace(examples, names=examples.names[:-1], columns=texts), labels)


def labelled_parts(data: DataConfig) -> Parts[Labelled]:
    return read_parts(data, "examples", lambda files, root: read_labelled(files, data.columns, root))


def label_set(train: Labelled, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The labels of the training examples, sorted; with `listed`, exactly those, each with an example that says
    something: an empty text teaches nothing."""
    has_text = [any(text.strip() for text in texts) for texts in zip(*train.examples.columns, strict=True)]
    counts = Counter(compress(train.labels, has_text))
    files = ", ".join(train.examples.files)
    empty = [label for label in listed or sorted(set(train.labels)) if label not in counts]
    if empty and counts:
        hint = f"it has: {named(sorted(counts))}; add examples of {empty[0]!r} or take it off the list"
        raise DataError(f"no example of {files} has the label {empty[0]!r} and a text, so it cannot be learned; {hint}")
    unlisted = next((i for i, label in enumerate(train.labels) if listed and label not in listed), None)
    if unlisted is not None:
        label, hint = train.labels[unlisted], f"listed are: {named(listed)}; fix the label or list it"
        raise DataError(f"{train.examples.where(unlisted, -1)} has the label {label!r}, which is not listed; {hint}")
    if not counts:
        raise DataError(f"every text of {files} is empty; name the columns of texts and labels with data.columns")
    label = train.labels[0]
    if len(counts) < 2:
        raise DataError(f"every example of {files} has the label {label!r}; a classifier needs two labels or more")
    if len(counts) > MOST_DISTINCT * len(train) and len(train) >= FEW:
        hint = f"such as {label[:40]!r}; name the column of the texts first and that of the labels last"
        raise DataError(f"{files} has {len(counts):,} different labels in {len(train):,} examples, {hint}")
    return tuple(sorted(counts))


def not_in_training(where: str, kind: str, name: str, known: Sequence[str]) -> DataError:
    hint = f"it has: {named(known)}; fix the {kind} or add examples of it to the training file"
    return DataError(f"{where} has the {kind} {name!r}, which training does not have; {hint}")


def named(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:SHOWN])
    return shown if len(labels) <= SHOWN else f"{shown}, ... ({len(labels)} in all)"
