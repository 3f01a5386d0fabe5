"""Sentences whose words have a tag each: files in columns, or a line of words beside a line of tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.labelled import named, not_in_training
from regard.data.files.reading import paths_of, read_examples, read_lines
from regard.data.files.splits import Divisible, Parts, read_parts
from regard.data.notes import Notes
from regard.errors import DataError


@dataclass(frozen=True)
class Tagged(Divisible):
    """Sentence i has the words `words[i]` and as many `tags[i]`, and was found at `places[i]`."""

    words: list[list[str]]
    tags: list[list[str]]
    places: list[str]  # "train.conll:12"
    notes: Notes

    def __len__(self) -> int:
        return len(self.words)

    def take(self, places: np.ndarray) -> "Tagged":
        words, tags = ([column[i] for i in places] for column in (self.words, self.tags))
        return Tagged(words, tags, [self.places[i] for i in places], Notes())

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
    found = read_rows(files, root) if not columns else read_beside(files, columns, root)
    if not len(found):
        raise DataError(f"{', '.join(files)}: no words found; check the file")
    return found


def tagged_parts(data: DataConfig) -> Parts[Tagged]:
    return read_parts(data, "sentences", lambda files, root: read_tagged(files, data.columns, root))


def read_rows(files: tuple[str, ...], root: Path | str) -> Tagged:
    """A word and its tag on each line, as the CoNLL tasks have them: the first column and the last, between white
    space; an empty line ends a sentence."""
    found = Tagged([], [], [], Notes())
    for path in paths_of(files, root):
        rows = [line.split() for line in read_lines(path, found.notes)]
        for number, cells in enumerate(rows, start=1):
            if len(cells) == 1:
                hint = "a word needs its tag beside it, and an empty line ends a sentence"
                raise DataError(f"{path}:{number} has one column, {cells[0][:40]!r}; {hint}")
            if cells and (number == 1 or not rows[number - 2]):
                found.words.append([])
                found.tags.append([])
                found.places.append(f"{path.name}:{number}")
            if cells:
                found.words[-1].append(cells[0])
                found.tags[-1].append(cells[-1])
    return found


def read_beside(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Tagged:
    """Two plain files, or two columns of a table: a line of words, and a line of as many tags."""
    examples = read_examples(files, columns, root)
    if len(columns) != 2:
        raise DataError(f"tagged text has two columns, words and tags; data.columns has {len(columns)}")
    words, tags = ([line.split() for line in column] for column in examples.columns)
    for i, (some, others) in enumerate(zip(words, tags, strict=True)):
        if len(some) != len(others):
            counts = f"{len(some)} words and {len(others)} tags"
            raise DataError(f"{examples.where(i)} has {counts}; each word needs one tag")
    found = Tagged(words, tags, [examples.where(i) for i in range(len(words))], examples.notes)
    kept = found.take(np.array([i for i, some in enumerate(words) if some], np.int64))
    kept.notes.update(examples.notes)
    if len(kept) < len(found):
        kept.notes.add("empty line skipped", found.places[words.index([])], len(found) - len(kept))
    return kept


def tag_set(train: Tagged, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags of the training sentences, sorted; with `listed`, exactly those."""
    found = set(chain.from_iterable(train.tags))
    missing = [tag for tag in listed if tag not in found]
    if missing:
        hint = f"it has: {named(sorted(found))}; add examples of it or take it off the list"
        raise DataError(f"no word of the training data has the tag {missing[0]!r}, so it cannot be learned; {hint}")
    if listed:
        train.expect(listed)
    if len(found) < 2:
        raise DataError(f"every word has the tag {next(iter(found))!r}; a tagger needs at least two tags")
    return listed or tuple(sorted(found))
