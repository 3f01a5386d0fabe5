"""Running text: all of a file as one array of tokens, and the windows that are cut from it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.batches import shuffled
from regard.data.notes import Notes
from regard.data.reading import read_lines
from regard.data.shards import TokenShard, shard
from regard.errors import ConfigError, DataError
from regard.text.tokenizer import Tokenizer

UNITS = ("lines", "stream", "text")


@dataclass(frozen=True)
class PlainText:
    """The lines of some files, each known by its place."""

    lines: list[str]
    places: list[str]  # "train.txt:12"
    notes: Notes

    @classmethod
    def read(cls, files: tuple[str, ...], root: str) -> "PlainText":
        notes = Notes()
        lines: list[str] = []
        places: list[str] = []
        for name in files:
            found = read_lines(Path(root) / name, notes)
            lines += found
            places += [f"{Path(name).name}:{i}" for i in range(1, len(found) + 1)]
        if not any(line.strip() for line in lines):
            raise DataError(f"{', '.join(files)}: there is no text to learn from")
        return cls(lines, places, notes)

    def divide(self, share: float) -> tuple["PlainText", "PlainText"]:
        """The text, and its last `share`, counted in characters with the line ends; a line may be cut in two."""
        ends = np.cumsum([len(line) + 1 for line in self.lines])
        place = int((1 - share) * ends[-1])
        i = int(np.searchsorted(ends, place, side="right"))
        if not 0 < share < 1 or i >= len(self.lines) or not place:
            raise ConfigError(f"valid_share = {share} leaves nothing on one side; it is a share between 0 and 1")
        inside = place - (int(ends[i - 1]) if i else 0)
        first = [*self.lines[:i], self.lines[i][:inside]] if inside else self.lines[:i]
        rest = [self.lines[i][inside:], *self.lines[i + 1 :]]
        return (
            PlainText(first, self.places[: len(first)], self.notes),
            PlainText(rest, self.places[i:], Notes()),
        )

    @property
    def n_bytes(self) -> int:
        return sum(len(line.encode()) + 1 for line in self.lines)

    @property
    def n_words(self) -> int:
        """Between white space, and one for the end of each line."""
        return sum(len(line.split()) + 1 for line in self.lines)


class Stream:
    """Tokens of a text.  `unit`: "lines" are texts of their own; a "stream" is all lines, each closed by </s>;
    a "text" is the file as it is, its line ends among the characters."""

    def __init__(self, text: PlainText, unit: str, tokenizer: Tokenizer, cache: Path):
        self.text, self.unit = text, unit
        lines = [line + "\n" for line in text.lines] if unit == "text" else text.lines
        self.lines: TokenShard = shard(lines, tokenizer, tokenizer.to_json(), cache)
        closed = 0 if unit == "text" else 1
        self.ends = self.lines.offsets[1:] + closed * np.arange(1, len(self.lines) + 1)  # of each line, in `tokens`
        self.tokens = np.full(int(self.ends[-1]) + 1, tokenizer.end_id, np.int64)
        starts = np.concatenate([[0], self.ends[:-1]]) + 1
        places = np.repeat(starts - self.lines.offsets[:-1], self.lines.lengths) + np.arange(len(self.lines.ids))
        self.tokens[places] = self.lines.ids

    def __len__(self) -> int:
        """Tokens that can be predicted: all but the </s> before the first, as if another line had ended there."""
        return len(self.tokens) - 1

    def where(self, token: int) -> str:
        """The line that holds a token."""
        return self.text.places[min(int(np.searchsorted(self.ends, token)), len(self.text.places) - 1)]

    def windows(self, width: int, first: int = 0) -> np.ndarray:
        """(n, 2): where windows begin and end, one after the other, from token `first` on; the last may be short."""
        starts = np.arange(first, len(self), width)
        return np.stack([starts, np.minimum(starts + width, len(self))], 1)

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
