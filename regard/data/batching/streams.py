"""Running text as one stream of tokens, and the windows that are cut from it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from regard.data.batching.computed_order import FitItems, PooledEpochs, sample
from regard.data.batching.packing import Packing, cut, shuffled
from regard.data.batching.shards import TokenShard, shard
from regard.data.files.on_disk import FileTexts, pick
from regard.data.files.plain import PlainText
from regard.errors import ConfigError, DataError
from regard.text.dropout import ranges
from regard.text.tokenizer import Tokenizer

# What stands before the first token: <s> before a line; before a stream, the end of a line; before a text, a line end,
# or <s> where the tokenizer has none, because it drops white space.
UNITS: dict[str, Callable[[Tokenizer], int]] = {
    "lines": lambda tokenizer: tokenizer.start_id,
    "stream": lambda tokenizer: tokenizer.end_id,
    "text": lambda tokenizer: (tokenizer.encode("\n") or [tokenizer.start_id])[-1],
}


class Stream:
    """Tokens of a text.  `unit`: "lines" are texts of their own; a "stream" is all lines, each closed by </s>;
    a "text" is the file as it is, its line ends among the characters."""

    def __init__(self, text: PlainText, unit: str, tokenizer: Tokenizer, cache: Path | None):
        self.text, self.unit, self.notes = text, unit, text.notes
        self.start_id, self.end_id = tokenizer.start_id, tokenizer.end_id
        lines = text.lines
        if unit == "text":
            ended = [line + "\n" for line in lines]
            lines = ended if text.is_closed else [*ended[:-1], text.lines[-1]]
        self.lines: TokenShard = shard(lines, tokenizer, cache)
        closed = 0 if unit == "text" else 1
        self.ends = self.lines.offsets[1:] + closed * np.arange(1, len(self.lines) + 1)  # of each line, in `tokens`
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.lengths = self.ends - self.starts  # tokens of each line, with what closes it
        tokens = np.full(int(self.ends[-1]) + 1, self.end_id, np.int64)
        tokens[0] = UNITS[unit](tokenizer)
        places = np.repeat(self.starts + 1 - self.lines.offsets[:-1], self.lines.lengths)
        tokens[places + np.arange(len(self.lines.ids))] = self.lines.ids
        self.tokens: np.ndarray | Preceded = tokens
        if not len(self):
            raise DataError(f"{text.places[0]}: this part of the text has no tokens; give more text or another share")

    def __len__(self) -> int:
        """Tokens that can be predicted: all but the one that stands before the first."""
        return len(self.tokens) - 1

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
        return cut_lines(self.starts, self.ends, width)

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

    # The batches of an epoch: windows, (n, 2) places in each.

    def line_batches(self, width: int, budget: int, order: str, seed: int, epoch: int) -> Sequence[np.ndarray]:
        windows = self.line_windows(width)
        packing = Packing(windows[:, 1] - windows[:, 0], budget, order, seed)
        return [windows[chosen] for chosen in packing.epoch(epoch)]

    def text_batches(self, width: int, first: int, budget: int, seed: int, epoch: int) -> Sequence[np.ndarray]:
        windows = self.windows(width, first)
        return in_batches(windows, shuffled(len(windows), seed, epoch), budget)

    def first_batch(self, width: int, budget: int) -> np.ndarray:
        windows = self.all_windows(width)
        return in_batches(windows, np.arange(len(windows)), budget)[0]

    def for_report(self) -> tuple[PlainText, int]:
        """The text, or some lines of it, and how many there are in all."""
        return self.text, len(self.text.lines)


class LargeStream(Stream):
    """Tokens that stay on disk, each line with what closes it."""

    def __init__(self, text: PlainText, unit: str, tokenizer: Tokenizer, cache: Path | None, processes: int):
        self.text, self.unit, self.notes = text, unit, text.notes
        self.start_id, self.end_id = tokenizer.start_id, tokenizer.end_id
        closing = None if unit == "text" else self.end_id
        lines = text.lines
        if unit == "text":
            lines = FileTexts(lambda: (f"{line}\n" for line in text.lines), len(text.lines))
        digest = f"{text.digest} {unit}" if text.digest else ""
        self.lines = shard(lines, tokenizer, cache, processes=processes, digest=digest, closing=closing)
        self.starts, self.ends = self.lines.offsets[:-1], self.lines.offsets[1:]
        self.tokens = Preceded(UNITS[unit](tokenizer), self.lines.ids)
        if not len(self):
            raise DataError(f"{text.places[0]}: this part of the text has no tokens; give more text or another share")

    @property
    def lengths(self) -> np.ndarray:
        return self.lines.lengths

    def describe(self) -> str:
        return f"{len(self):,} tokens in {len(self.text.lines):,} lines"

    def line_batches(self, width: int, budget: int, order: str, seed: int, epoch: int) -> Sequence[np.ndarray]:
        def measure(lines: np.ndarray) -> FitItems:
            windows = cut_lines(self.starts[lines], self.ends[lines], width)
            return windows, windows[:, 1] - windows[:, 0]

        return PooledEpochs(len(self.starts), measure, budget, order, seed).epoch(epoch)

    def text_batches(self, width: int, first: int, budget: int, seed: int, epoch: int) -> Sequence[np.ndarray]:
        def measure(numbers: np.ndarray) -> FitItems:
            starts = first + width * numbers
            windows = np.stack([starts, np.minimum(starts + width, len(self))], 1)
            return windows, windows[:, 1] - windows[:, 0]

        return PooledEpochs(-(-(len(self) - first) // width), measure, budget, "random", seed).epoch(epoch)

    def first_batch(self, width: int, budget: int) -> np.ndarray:
        if self.unit == "lines":
            windows = cut_lines(self.starts[:budget], self.ends[:budget], width)
        else:
            windows = Stream.windows(self, width)[:budget]
        return in_batches(windows, np.arange(len(windows)), budget)[0]

    def for_report(self) -> tuple[PlainText, int]:
        return sampled_text(self.text)


def sampled_text(text: PlainText) -> tuple[PlainText, int]:
    """Some lines of it, and how many there are."""
    places = sample(len(text.lines))
    where = [text.places[int(i)] for i in places]
    return PlainText(pick(text.lines, places), where, text.notes), len(text.lines)


class Preceded:
    """Numbers on disk, and one before the first, as one array."""

    def __init__(self, first: int, others: np.ndarray):
        self.first, self.others = first, others

    def __len__(self) -> int:
        return len(self.others) + 1

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        if isinstance(places, slice):
            places = np.arange(*places.indices(len(self)))
        values = self.others[np.maximum(places - 1, 0)].astype(np.int64)
        return np.where(places == 0, self.first, values)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate([[self.first], self.others]).astype(dtype or np.int64)


def cut_lines(starts: np.ndarray, ends: np.ndarray, width: int) -> np.ndarray:
    """(n, 2): windows of lines; one of more than `width` tokens is cut into several."""
    n_pieces = -(-(ends - starts) // width)
    line = np.repeat(np.arange(len(n_pieces)), n_pieces)
    firsts = starts[line] + width * ranges(n_pieces)
    return np.stack([firsts, np.minimum(firsts + width, ends[line])], 1)


def in_batches(windows: np.ndarray, order: np.ndarray, n_tokens: int) -> list[np.ndarray]:
    return [windows[chosen] for chosen in cut(order, windows[:, 1] - windows[:, 0], n_tokens)]


def offset(width: int, seed: int, epoch: int) -> int:
    """Where the first window of an epoch begins: windows then differ from epoch to epoch."""
    return int(shuffled(width, seed, epoch, purpose=2)[0]) if epoch else 0
