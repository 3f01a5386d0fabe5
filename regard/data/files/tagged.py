"""Sentences whose words have a tag each: files in columns, or a line of words beside a line of tags."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from regard.data.files.labelled import named
from regard.data.files.reading import read_examples, read_lines
from regard.data.files.splits import by_hash
from regard.data.notes import Notes
from regard.errors import DataError


@dataclass(frozen=True)
class Tagged:
    """Sentence i has the words `words[i]` and as many `tags[i]`, and was found at `places[i]`."""

    words: list[list[str]]
    tags: list[list[str]]
    places: list[str]  # "train.conll:12"
    notes: Notes

    def __len__(self) -> int:
        return len(self.words)

    def select(self, indices: Iterable[int]) -> "Tagged":
        chosen = list(indices)
        words, tags = ([column[i] for i in chosen] for column in (self.words, self.tags))
        return Tagged(words, tags, [self.places[i] for i in chosen], Notes())

    def hold_out(self, share: float, seed: int) -> tuple["Tagged", "Tagged"]:
        """What is left, and about `share` of the distinct sentences; equal ones stay together."""
        left, held_out = by_hash([" ".join(words) for words in self.words], share, seed)
        return replace(self.select(left), notes=self.notes), self.select(held_out)

    def expect(self, tag_set: Sequence[str]) -> None:
        """A tag that training does not have is an error."""
        known = set(tag_set)
        for tags, place in zip(self.tags, self.places, strict=True):
            strange = next((tag for tag in tags if tag not in known), None)
            if strange is not None:
                raise DataError(
                    f"the sentence at {place} has the tag {strange!r}, which training does not have; "
                    f"it has: {named(tag_set)}; mend the tag or add examples of it to the training file"
                )


def read_tagged(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Tagged:
    """Without `columns`, files in columns; with two of them, lines of words and lines of tags."""
    found = read_rows(files, root) if not columns else read_beside(files, columns, root)
    if not len(found):
        raise DataError(f"{', '.join(files)}: there is no word in it; check the file")
    return found


def read_rows(files: tuple[str, ...], root: Path | str) -> Tagged:
    """A word and its tag on each line, as the CoNLL tasks have them: the first column and the last, between white
    space; an empty line ends a sentence."""
    notes = Notes()
    words: list[list[str]] = []
    tags: list[list[str]] = []
    places: list[str] = []
    for path in (Path(root) / name for name in files):
        is_open = False
        for number, line in enumerate(read_lines(path, notes), start=1):
            cells = line.split()
            if len(cells) == 1:
                raise DataError(
                    f"{path}:{number} has one column, {cells[0][:40]!r}; a word needs its tag beside it, "
                    "and an empty line ends a sentence"
                )
            if cells and not is_open:
                words.append([])
                tags.append([])
                places.append(f"{path.name}:{number}")
            is_open = bool(cells)
            if cells:
                words[-1].append(cells[0])
                tags[-1].append(cells[-1])
    return Tagged(words, tags, places, notes)


def read_beside(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Tagged:
    """Two plain files, or two columns of a table: a line of words, and a line of as many tags."""
    examples = read_examples(files, columns, root)
    if len(columns) != 2:
        raise DataError(f"tagged text has two columns, words and tags; data.columns has {len(columns)}")
    words, tags = ([line.split() for line in column] for column in examples.columns)
    for i, (some, others) in enumerate(zip(words, tags, strict=True)):
        if len(some) != len(others):
            raise DataError(
                f"{examples.where(i)} has {len(some)} words and {len(others)} tags; each word needs one tag"
            )
    found = Tagged(words, tags, [examples.where(i) for i in range(len(words))], examples.notes)
    kept = found.select(i for i, some in enumerate(words) if some)
    if len(kept) < len(found):
        examples.notes.add("empty line left out", found.places[words.index([])], len(found) - len(kept))
    return Tagged(kept.words, kept.tags, kept.places, examples.notes)


def tag_set(train: Tagged, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags of the training sentences, sorted; with `listed`, exactly those."""
    found = set(chain.from_iterable(train.tags))
    missing = [tag for tag in listed if tag not in found]
    if missing:
        raise DataError(
            f"no word of the training data has the tag {missing[0]!r}, so it cannot be learnt; "
            f"it has: {named(sorted(found))}; add examples of it or take it off the list"
        )
    if listed:
        train.expect(listed)
    if len(found) < 2:
        raise DataError(f"every word has the tag {next(iter(found))!r}; a tagger needs two tags or more to tell apart")
    return listed or tuple(sorted(found))
