"""Plain text: the lines of files, and the parts that a text is divided into."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import overload

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.large import has_more_lines, read_large
from regard.data.files.reading import Examples, kind_of, paths_of, read_columns, read_parallel
from regard.data.files.records import TABLES
from regard.data.files.splits import Parts, Shares
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError


@dataclass(frozen=True)
class PlainText:
    """The lines of some files, each known by its place."""

    lines: Sequence[str]
    places: Sequence[str]  # "train.txt:12"
    notes: Notes
    is_closed: bool = True  # False: cut within its last line, which has no end
    digest: str = ""  # of lines that stay in their files: says which they are

    @classmethod
    def read(cls, files: tuple[str, ...], root: str, columns: tuple[str, ...] = ()) -> "PlainText":
        """All lines of plain files, and, where `columns` are named, of tables the texts of these columns."""
        lines: list[str] = []
        places: list[str] = []
        text = cls(lines, places, Notes())
        for path in paths_of(files, root):
            is_table = columns and kind_of(path) in TABLES
            texts, numbers = read_columns(path, columns, text.notes) if is_table else read_parallel([path], text.notes)
            name = path.name
            for column in texts:
                lines.extend(column)
                places.extend(f"{name}:{i}" for i in numbers)
        text.refuse_nothing(files)
        return text

    @classmethod
    def read_sized(
        cls, files: tuple[str, ...], root: str, columns: tuple[str, ...], in_memory: int | None
    ) -> "PlainText":
        """The same, or, with more lines than `in_memory`, a text whose lines stay in the files."""
        paths = paths_of(files, root)
        if in_memory is None or len(columns) > 1 or not has_more_lines(paths, in_memory):
            return cls.read(files, root, columns)
        examples = read_large(paths, columns or ("text",), columns)
        text = cls(examples.columns[0], LinePlaces(examples), examples.notes, digest=examples.digest)
        text.refuse_nothing(files)
        return text

    def refuse_nothing(self, files: tuple[str, ...]) -> None:
        if not any(line.strip() for line in self.lines):
            raise DataError(f"{', '.join(files)}: no text to learn from")

    def divide(self, place: int) -> tuple["PlainText", "PlainText"]:
        """The first `place` characters, line ends counted, and the rest; a line may be cut in two."""
        if not 0 < place < self.n_characters:
            raise ConfigError(
                f"a text of {self.n_characters:,} characters cannot be divided after {max(place, 0):,}: nothing would "
                "be left on one side; change data.valid_share or data.test_share, or name files"
            )
        ends = self.line_ends()
        i = int(np.searchsorted(ends, place, side="right"))
        inside = place - (int(ends[i - 1]) if i else 0)
        first = [*self.lines[:i], self.lines[i][:inside]] if inside else self.lines[:i]
        rest = [self.lines[i][inside:], *self.lines[i + 1 :]]
        before = PlainText(first, self.places[: len(first)], self.notes, is_closed=not inside)
        return before, PlainText(rest, self.places[i:], Notes(), self.is_closed)

    def line_ends(self) -> np.ndarray:
        """In characters."""
        return np.cumsum([len(line) + 1 for line in self.lines])

    @property
    def n_characters(self) -> int:
        return sum(len(line) + 1 for line in self.lines) - (not self.is_closed)

    @property
    def n_bytes(self) -> int:
        return sum(len(line.encode()) + 1 for line in self.lines) - (not self.is_closed)

    @property
    def n_words(self) -> int:
        """Between white space, and one for the end of each line."""
        return sum(len(line.split()) + 1 for line in self.lines) - (not self.is_closed)


class LinePlaces(Sequence[str]):
    """Where each line of some files stands."""

    def __init__(self, examples: Examples):
        self.examples = examples

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [self.examples.where(number) for number in range(*i.indices(len(self)))]
        return self.examples.where(i)


def text_parts(data: DataConfig, unit: str) -> Parts[PlainText]:
    """Shares are held out from the end of the training text: the validation part, then the test part.

    A text is divided at the exact character, lines and streams at the end of the line that this falls into.
    """

    read = partial(PlainText.read, columns=data.columns)

    def divide() -> Shares[PlainText]:
        train, valid, test = PlainText.read_sized(data.train, data.root, data.columns, data.most_lines), None, None
        if not (data.valid_share or data.test_share):
            return train, None, None
        ends = train.line_ends()

        def place(kept: float) -> int:
            exact = int(kept * int(ends[-1]))
            return exact if unit == "text" or not exact else int(ends[np.searchsorted(ends, exact)])

        if data.test_share:
            train, test = train.divide(place(1 - data.test_share))
        if data.valid_share:
            train, valid = train.divide(place(1 - data.test_share - data.valid_share))
        return train, valid, test

    return Parts(data, "text", read, divide)
