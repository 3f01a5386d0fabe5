"""Texts (or other examples) with a label each, and sentences whose words have a tag each.  Labels and tags are strings,
and their set is what training has."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from pathlib import Path
from typing import cast

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.large import read_sized
from regard.data.files.reading import Examples, paths_of, read_examples, read_lines
from regard.data.files.splits import Divisible, Parts, read_parts
from regard.data.files.stored_labels import LabelIds, StoredLabels
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

SHOWN = 10  # labels named in a message
MOST_DISTINCT = 0.5  # more different labels than half the examples are not labels ...
FEW = 20  # ... but so few examples may be a trial


class WithLabels(Divisible):
    """Examples of any kind, with a label each."""

    noun = "example"  # what people call one
    labels: Sequence[str]

    @property
    @abstractmethod
    def files(self) -> list[str]: ...

    @abstractmethod
    def where_label(self, i: int) -> str: ...

    def says_something(self) -> Iterable[bool]:
        """Of each example, whether anything can be learned from it."""
        return [True] * len(self.labels)

    def ids(self, label_set: Sequence[str]) -> np.ndarray:
        """The place of each label in `label_set`; one that is not there is an error."""
        place = {label: i for i, label in enumerate(label_set)}
        for i, label in enumerate(self.labels):
            if label not in place:
                raise not_in_training(self.where_label(i), "label", label, label_set)
        return np.array([place[label] for label in self.labels], np.int64)


@dataclass(frozen=True)
class Labelled(WithLabels):
    """Text i is `examples.columns[0][i]`, of a pair `columns[1][i]` is the second; its label is `labels[i]`.  The texts
    are as the file has them."""

    examples: Examples  # the texts alone: one column, or two
    labels: Sequence[str]

    noun = "text"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def texts(self) -> Sequence[str]:
        """Each as a line; the two of a pair have a tab between them, and no other before it."""
        if len(self.examples.columns) == 1:
            return self.examples.columns[0]
        return [first.replace("\t", " ") + "\t" + second for first, second in zip(*self.examples.columns, strict=True)]

    def take(self, places: np.ndarray) -> "Labelled":
        return Labelled(self.examples.take(places), [self.labels[int(i)] for i in places])

    def keys(self) -> Sequence[str]:
        """Equal texts stay together."""
        return self.texts

    @property
    def notes(self) -> Notes:  # type: ignore[override]
        return self.examples.notes

    @property
    def files(self) -> list[str]:
        return self.examples.files

    def where_label(self, i: int) -> str:
        return self.examples.where(i, -1)

    def says_something(self) -> Iterable[bool]:
        return [any(text.strip() for text in texts) for texts in zip(*self.examples.columns, strict=True)]


@dataclass(frozen=True)
class LargeLabelled(Labelled):
    """The same of texts that stay in their files."""

    labels: StoredLabels

    def says_something(self) -> Iterable[bool]:
        return self.labels.say_something()

    def ids(self, label_set: Sequence[str]) -> np.ndarray:
        place = {label: i for i, label in enumerate(label_set)}
        strange = next((label for label in self.labels.names if label not in place), None)
        if strange is not None:
            raise not_in_training(self.where_label(self.labels.index(strange)), "label", strange, label_set)
        ids = LabelIds(self.labels, [place[label] for label in self.labels.names])
        return cast(np.ndarray, ids)  # it is only indexed


def read_labelled(
    files: tuple[str, ...], columns: tuple[str, ...], root: Path | str, in_memory: int | None = None
) -> Labelled:
    """Tables with a column of texts, or two of pairs, and one of labels, named in this order, or such plain files.

    Space around a label does not count; an empty label is an error.  With more lines than `in_memory`, the texts stay
    in their files.
    """
    examples = read_sized(files, columns, root, in_memory)
    if len(examples.columns) not in (2, 3):
        given = f"{', '.join(files)} give {', '.join(examples.names)}"
        raise ConfigError(f"labeled text has two columns (text, label), or three for pairs of texts; {given}")
    texts = replace(examples, names=examples.names[:-1], columns=examples.columns[:-1])
    if examples.digest:
        return LargeLabelled(texts, StoredLabels(examples))
    labels = [label.strip() for label in examples.columns[-1]]
    if "" in labels:
        raise DataError(f"{examples.where(labels.index(''), -1)} has no label; give it one or take it out")
    return Labelled(texts, labels)


def labelled_parts(data: DataConfig) -> Parts[Labelled]:
    def read_train() -> Labelled:
        return read_labelled(data.train, data.columns, data.root, data.most_lines)

    return read_parts(data, "examples", lambda files, root: read_labelled(files, data.columns, root), read_train)


def label_set(train: WithLabels, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The labels of the training examples, sorted; with `listed`, exactly those, each with an example that says
    something: an empty text teaches nothing."""
    noun, files = train.noun, ", ".join(train.files)
    counts = Counter(compress(train.labels, train.says_something()))
    empty = [label for label in listed or sorted(set(train.labels)) if label not in counts]
    if empty and counts:
        lacking = f"the label {empty[0]!r}" + (f" and a {noun}" if empty[0] in train.labels else "")
        hint = f"it has: {named(sorted(counts))}; add examples of {empty[0]!r} or take it off the list"
        raise DataError(f"no example of {files} has {lacking}, so it cannot be learned; {hint}")
    unlisted = next((i for i, label in enumerate(train.labels) if listed and label not in listed), None)
    if unlisted is not None:
        label, hint = train.labels[unlisted], f"listed are: {named(listed)}; fix the label or list it"
        raise DataError(f"{train.where_label(unlisted)} has the label {label!r}, which is not listed; {hint}")
    if not counts:
        raise DataError(f"every {noun} of {files} is empty; name the columns of {noun}s and labels with data.columns")
    label = train.labels[0]
    if len(counts) < 2:
        raise DataError(f"every example of {files} has the label {label!r}; a classifier needs two labels or more")
    if len(counts) > MOST_DISTINCT * len(train.labels) and len(train.labels) >= FEW:
        hint = f"such as {label[:40]!r}; name the column of the {noun}s first and that of the labels last"
        raise DataError(f"{files} has {len(counts):,} different labels in {len(train.labels):,} examples, {hint}")
    return tuple(sorted(counts))


@dataclass(frozen=True)
class Tagged(Divisible):
    """Sentence i has the words `words[i]` and as many `tags[i]`, and was found at `places[i]`."""

    words: list[list[str]] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # "train.conll:12"
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.words)

    def add(self, words: list[str], tags: list[str], place: str, if_empty: str = "empty line skipped") -> None:
        """A sentence, unless it has no words: that is noted."""
        if words:
            self.words.append(words)
            self.tags.append(tags)
            self.places.append(place)
        else:
            self.notes.add(if_empty, place)

    def take(self, places: np.ndarray) -> "Tagged":
        words, tags = ([column[i] for i in places] for column in (self.words, self.tags))
        return Tagged(words, tags, [self.places[i] for i in places])

    def keys(self) -> list[str]:
        """Equal sentences stay together."""
        return [" ".join(words) for words in self.words]

    def expect(self, tag_set: Sequence[str]) -> None:
        """A tag that training does not have is an error."""
        known = set(tag_set)
        for tags, place in zip(self.tags, self.places, strict=True):
            strange = next((tag for tag in tags if tag not in known), None)
            if strange is not None:
                raise not_in_training(f"the sentence at {place}", "tag", strange, tag_set)


def read_tagged(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Tagged:
    """Without `columns`, files in columns; with two of them, lines of words and lines of tags."""
    sentences = read_beside(files, columns, root) if columns else read_rows(files, root)
    if not len(sentences):
        raise DataError(f"{', '.join(files)}: no words found; check the file")
    return sentences


def tagged_parts(data: DataConfig) -> Parts[Tagged]:
    return read_parts(data, "sentences", lambda files, root: read_tagged(files, data.columns, root))


def read_rows(files: tuple[str, ...], root: Path | str) -> Tagged:
    """A word and its tag on each line, as the CoNLL tasks have them: the first column and the last, between white
    space; an empty line ends a sentence."""
    sentences = Tagged()
    for path in paths_of(files, root):
        is_inside = False
        for number, line in enumerate(read_lines(path, sentences.notes), start=1):
            cells = line.split()
            if len(cells) == 1:
                hint = "a word needs its tag beside it, and an empty line ends a sentence"
                raise DataError(f"{path}:{number} has one column, {cells[0][:40]!r}; {hint}")
            if cells and is_inside:
                sentences.words[-1].append(cells[0])
                sentences.tags[-1].append(cells[-1])
            elif cells:
                sentences.add([cells[0]], [cells[-1]], f"{path.name}:{number}")
            is_inside = bool(cells)
    return sentences


def read_beside(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Tagged:
    """Two plain files, or two columns of a table: a line of words, and a line of as many tags."""
    examples = read_examples(files, columns, root)
    if len(columns) != 2:
        raise DataError(f"tagged text has two columns, words and tags; data.columns has {len(columns)}")
    sentences = Tagged(notes=examples.notes)
    for i in range(len(examples)):
        words, tags = (line.split() for line in examples[i])
        if len(words) != len(tags):
            counts = f"{len(words)} words and {len(tags)} tags"
            raise DataError(f"{examples.where(i)} has {counts}; each word needs one tag")
        sentences.add(words, tags, examples.where(i))
    return sentences


def tag_set(train: Tagged, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags of the training sentences, sorted; with `listed`, exactly those."""
    known = set(chain.from_iterable(train.tags))
    missing = [tag for tag in listed if tag not in known]
    if missing:
        hint = f"it has: {named(sorted(known))}; add examples of it or take it off the list"
        raise DataError(f"no word of the training data has the tag {missing[0]!r}, so it cannot be learned; {hint}")
    if listed:
        train.expect(listed)
    if len(known) < 2:
        raise DataError(f"every word has the tag {next(iter(known))!r}; a tagger needs at least two tags")
    return listed or tuple(sorted(known))


def not_in_training(where: str, kind: str, name: str, known: Sequence[str]) -> DataError:
    hint = f"it has: {named(known)}; fix the {kind} or add examples of it to the training file"
    return DataError(f"{where} has the {kind} {name!r}, which training does not have; {hint}")


def named(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:SHOWN])
    return shown if len(labels) <= SHOWN else f"{shown}, ... ({len(labels)} in all)"
