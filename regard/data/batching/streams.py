"""Running text: all of a file as one array of tokens, and the windows that are cut from it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.batching.packing import shuffled
from regard.data.batching.shards import TokenShard, shard
from regard.data.config import DataConfig
from regard.data.files.reading import kind_of, read_columns, read_lines
from regard.data.files.tables import TABLES
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError
from regard.text.tokenizer import Tokenizer


def line_end(tokenizer: Tokenizer) -> int:
    """The token of a line end; <s> where the tokenizer has none, because it drops white space."""
    return (tokenizer.encode("\n") or [tokenizer.start_id])[-1]


# What stands before the first token: <s> before a line; before a stream, the end of a line; before a text, a line end.
UNITS: dict[str, Callable[[Tokenizer], int]] = {
    "lines": lambda tokenizer: tokenizer.start_id,
    "stream": lambda tokenizer: tokenizer.end_id,
    "text": line_end,
}


@dataclass(frozen=True)
class PlainText:
    """The lines of some files, each known by its place."""

    lines: list[str]
    places: list[str]  # "train.txt:12"
    notes: Notes
    is_closed: bool = True  # False: cut within its last line, which has no end

    @classmethod
    def read(cls, files: tuple[str, ...], root: str, columns: tuple[str, ...] = ()) -> "PlainText":
        """All lines of plain files, and, where `columns` are named, of tables the texts of these columns."""
        notes = Notes()
        lines: list[str] = []
        places: list[str] = []
        for name in files:
            path = Path(root) / name
            if columns and kind_of(path) in TABLES:
                texts, numbers = read_columns(path, columns, notes)
            else:
                texts = [read_lines(path, notes)]
                numbers = list(range(1, len(texts[0]) + 1))
            for column in texts:
                lines += column
                places += [f"{path.name}:{i}" for i in numbers]
        if not any(line.strip() for line in lines):
            raise DataError(f"{', '.join(files)}: there is no text to learn from")
        return cls(lines, places, notes)

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
        return (
            PlainText(first, self.places[: len(first)], self.notes, is_closed=not inside),
            PlainText(rest, self.places[i:], Notes(), self.is_closed),
        )

    def whole_lines(self, place: int) -> int:
        """The end of the line that has the character before `place`."""
        ends = self.line_ends()
        return int(ends[np.searchsorted(ends, place)])

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


class TextParts(NamedTuple):
    train: PlainText
    valid: PlainText | None
    test: PlainText | None  # only what `test_share` kept back; files are read by who needs them


def read_parts(data: DataConfig, unit: str) -> TextParts:
    """Shares are kept back from the end of the training text: before the test part lies the validation part.

    A text is divided at the exact character, lines and streams at the end of the line that this falls into.
    """
    train = PlainText.read(data.train, data.root, data.columns)
    valid = PlainText.read(data.valid, data.root, data.columns) if data.valid else None
    test = None
    n = train.n_characters

    def place(kept: float) -> int:
        exact = int(kept * n)
        return exact if unit == "text" or not exact else train.whole_lines(exact)

    if data.test_share:
        train, test = train.divide(place(1 - data.test_share))
    if data.valid_share:
        train, valid = train.divide(place(1 - data.test_share - data.valid_share))
    return TextParts(train, valid, test)


class Stream:
    """Tokens of a text.  `unit`: "lines" are texts of their own; a "stream" is all lines, each closed by </s>;
    a "text" is the file as it is, its line ends among the characters."""

    def __init__(self, text: PlainText, unit: str, tokenizer: Tokenizer, cache: Path):
        self.text, self.unit = text, unit
        self.start_id, self.end_id = tokenizer.start_id, tokenizer.end_id
        lines = text.lines
        if unit == "text":
            lines = [line + "\n" for line in lines]
            lines[-1] = lines[-1] if text.is_closed else text.lines[-1]
        self.lines: TokenShard = shard(lines, tokenizer, tokenizer.to_json(), cache)
        closed = 0 if unit == "text" else 1
        self.ends = self.lines.offsets[1:] + closed * np.arange(1, len(self.lines) + 1)  # of each line, in `tokens`
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.tokens = np.full(int(self.ends[-1]) + 1, self.end_id, np.int64)
        self.tokens[0] = UNITS[unit](tokenizer)
        places = np.repeat(self.starts + 1 - self.lines.offsets[:-1], self.lines.lengths)
        self.tokens[places + np.arange(len(self.lines.ids))] = self.lines.ids
        if not len(self):
            raise DataError(f"{text.places[0]}: this part of the text has no tokens; give more text or another share")

    def __len__(self) -> int:
        """Tokens that can be predicted: all but the one that stands before the first."""
        return len(self.tokens) - 1

    def where(self, token: int) -> str:
        """The line that holds a token."""
        return self.text.places[min(int(np.searchsorted(self.ends, token)), len(self.text.places) - 1)]

    def windows(self, width: int, first: int = 0) -> np.ndarray:
        """(n, 2): where windows begin and end, one after the other, from token `first` on; the last may be short."""
        starts = np.arange(first, len(self), width)
        return np.stack([starts, np.minimum(starts + width, len(self))], 1)

    def line_windows(self, width: int) -> np.ndarray:
        """(n, 2): each line with its end; one of more than `width` tokens is cut into several windows."""
        lengths = self.ends - self.starts
        n_pieces = -(-lengths // width)
        line = np.repeat(np.arange(len(lengths)), n_pieces)
        piece = np.arange(len(line)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
        starts = self.starts[line] + width * piece
        return np.stack([starts, np.minimum(starts + width, self.ends[line])], 1)

    def all_windows(self, width: int) -> np.ndarray:
        """(n, 2): the whole text once, lines each by itself."""
        return self.line_windows(width) if self.unit == "lines" else self.windows(width)

    def columns(self, n: int, width: int, first: int = 0) -> list[np.ndarray]:
        """The text in n columns side by side, cut into windows: for each, (n, 2) places.  Each goes on where the one
        before it ended.  Fewer than n tokens at the end have no place in any column."""
        height = (len(self) - first) // n
        if height < 1:
            raise ConfigError(f"a text of {len(self):,} tokens has no {n} columns; lower data.batch_tokens")
        tops = first + height * np.arange(n)
        return [np.stack([tops + y, tops + min(y + width, height)], 1) for y in range(0, height, width)]


def offset(width: int, seed: int, epoch: int) -> int:
    """Where the first window of an epoch begins: windows then differ from epoch to epoch."""
    return int(shuffled(width, seed, epoch, purpose=2)[0]) if epoch else 0
