"""Texts with a label each.  Labels are strings, and their set is what training has."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.reading import Examples, read_examples
from regard.data.files.splits import by_hash, with_shares
from regard.errors import ConfigError, DataError

SHOWN = 10  # labels named in a message
MOST_DISTINCT = 0.5  # more different labels than half the examples are no labels ...
FEW = 20  # ... but so few examples may be a trial


@dataclass(frozen=True)
class Labelled:
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

    def hold_out(self, share: float, seed: int) -> tuple["Labelled", "Labelled"]:
        """What is left, and about `share` of the distinct texts; equal texts stay together (see `splits`)."""
        left, held_out = by_hash(self.texts, share, seed)
        return self.take(left), self.take(held_out)

    def ids(self, label_set: Sequence[str]) -> np.ndarray:
        """The place of each label in `label_set`; one that is not there is an error."""
        place = {label: i for i, label in enumerate(label_set)}
        for i, label in enumerate(self.labels):
            if label not in place:
                raise DataError(
                    f"{self.examples.where(i, -1)} has the label {label!r}, which training does not have; "
                    f"it has: {named(label_set)}; mend the label or add examples of it to the training file"
                )
        return np.array([place[label] for label in self.labels], np.int64)


def read_labelled(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Labelled:
    """Tables with a column of texts, or two of pairs, and one of labels, named in this order, or such plain files.

    Space around a label does not count; an empty label is an error.
    """
    examples = read_examples(files, columns, root)
    if len(examples.columns) not in (2, 3):
        names = ", ".join(examples.names)
        raise ConfigError(
            f"labelled text has two columns, text and label, or of pairs three; {', '.join(files)} give {names}"
        )
    texts, labels = examples.columns[:-1], [label.strip() for label in examples.columns[-1]]
    if "" in labels:
        raise DataError(f"{examples.where(labels.index(''), -1)} has no label; give it one or take it out")
    return Labelled(replace(examples, names=examples.names[:-1], columns=texts), labels)


class LabelledParts(NamedTuple):
    train: Labelled
    valid: Labelled | None
    test: Labelled | None  # only where it is a share of the training data; see `read_test`


def read_training(data: DataConfig) -> LabelledParts:
    """What is learnt from and what validates it.  A share held out depends on the texts alone, not on any seed."""
    train, valid = (
        read_labelled(files, data.columns, data.root) if files else None for files in (data.train, data.valid)
    )
    assert train is not None
    return LabelledParts(*with_shares(train, valid, None, data))


def read_test(data: DataConfig) -> Labelled | None:
    """The test files, or the share of the training data that nobody learnt from."""
    return read_labelled(data.test, data.columns, data.root) if data.test else read_training(data).test


def label_set(train: Labelled, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The labels of the training examples, sorted; with `listed`, exactly those, each with an example that says
    something: an empty text teaches nothing."""
    has_text = [any(text.strip() for text in texts) for texts in zip(*train.examples.columns, strict=True)]
    counts = Counter(compress(train.labels, has_text))
    files = ", ".join(train.examples.files)
    empty = [label for label in listed or sorted(set(train.labels)) if label not in counts]
    if empty and counts:
        raise DataError(
            f"no example of {files} has the label {empty[0]!r} and a text, so it cannot be learnt; "
            f"it has: {named(sorted(counts))}; add examples of {empty[0]!r} or take it off the list"
        )
    unlisted = next((i for i, label in enumerate(train.labels) if listed and label not in listed), None)
    if unlisted is not None:
        raise DataError(
            f"{train.examples.where(unlisted, -1)} has the label {train.labels[unlisted]!r}, which is not listed; "
            f"listed are: {named(listed)}; mend the label or list it"
        )
    if not counts:
        raise DataError(f"every text of {files} is empty; name the columns of texts and labels with data.columns")
    if len(counts) < 2:
        raise DataError(
            f"every example of {files} has the label {train.labels[0]!r}; a classifier needs two labels or more"
        )
    if len(counts) > MOST_DISTINCT * len(train) and len(train) >= FEW:
        raise DataError(
            f"{files} has {len(counts):,} different labels in {len(train):,} examples, "
            f"such as {train.labels[0][:40]!r}; name the column of the texts first and that of the labels last"
        )
    return tuple(sorted(counts))


def named(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:SHOWN])
    return shown if len(labels) <= SHOWN else f"{shown}, ... ({len(labels)} in all)"
