"""Running text: all of a file as one array of tokens, and the windows that are cut from it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard.data.batching.packing import shuffled
from regard.data.batching.shards import TokenShard, shard
from regard.data.files.plain import PlainText
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError
from regard.text.dropout import ranges
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


class Stream:
    """Tokens of a text.  `unit`: "lines" are texts of their own; a "stream" is all lines, each closed by </s>;
    a "text" is the file as it is, its line ends among the characters."""

    def __init__(self, text: PlainText, unit: str, tokenizer: Tokenizer, cache: Path | None):
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

    @property
    def notes(self) -> Notes:
        return self.text.notes

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each line, with what closes it."""
        return self.ends - self.starts

    def describe(self) -> str:
        return f"{len(self):,} tokens in {len(self.text.lines):,} lines, {self.text.n_bytes:,} bytes"

    def where(self, token: int) -> str:
        """The line that holds a token."""
        return self.text.places[min(int(np.searchsorted(self.ends, token)), len(self.text.places) - 1)]

    def windows(self, width: int, first: int = 0) -> np.ndarray:
        """(n, 2): where windows begin and end, one after the other, from token `first` on; the last may be short."""
        starts = np.arange(first, len(self), width)
        return np.stack([starts, np.minimum(starts + width, len(self))], 1)

    def line_windows(self, width: int) -> np.ndarray:
        """(n, 2): each line with its end; one of more than `width` tokens is cut into several windows."""
        lengths = self.lengths
        n_pieces = -(-lengths // width)
        line = np.repeat(np.arange(len(lengths)), n_pieces)
        starts = self.starts[line] + width * ranges(n_pieces)
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
