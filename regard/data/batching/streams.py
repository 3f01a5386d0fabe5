"""Plain text as tokens, and the windows that are cut from it: of running text, which is one stream, or of documents."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np

from regard.data.batching.packing import shuffled
from regard.data.batching.shards import TokenShard, shard
from regard.data.files.plain import PlainText
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError
from regard.text.dropout import ranges
from regard.text.tokenizer import Tokenizer

ENDINGS = (".", "!", "?", "。", "！", "？")  # a token that ends so is taken for the end of a sentence
FEWEST = 2  # tokens of a document: one alone has nothing around it

PlacedTexts = tuple[list[str], list[str]]  # and the place of each

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
            lines = [line + "\n" for line in lines]
            lines[-1] = lines[-1] if text.is_closed else text.lines[-1]
        self.lines: TokenShard = shard(lines, tokenizer, cache)
        closed = 0 if unit == "text" else 1
        self.ends = self.lines.offsets[1:] + closed * np.arange(1, len(self.lines) + 1)  # of each line, in `tokens`
        self.starts = np.concatenate([[0], self.ends[:-1]])
        self.lengths = self.ends - self.starts  # tokens of each line, with what closes it
        self.tokens = np.full(int(self.ends[-1]) + 1, self.end_id, np.int64)
        self.tokens[0] = UNITS[unit](tokenizer)
        places = np.repeat(self.starts + 1 - self.lines.offsets[:-1], self.lines.lengths)
        self.tokens[places + np.arange(len(self.lines.ids))] = self.lines.ids
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
        n_pieces = -(-self.lengths // width)
        line = np.repeat(np.arange(len(n_pieces)), n_pieces)
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


def by_line(text: PlainText) -> PlacedTexts:
    """Every line that is not empty, and its place."""
    written = [i for i, line in enumerate(text.lines) if line.strip()]
    return [text.lines[i] for i in written], [text.places[i] for i in written]


def by_block(text: PlainText) -> PlacedTexts:
    """Lines up to an empty one, joined, and the place of the first."""
    lines = zip((line.strip() for line in text.lines), text.places, strict=True)
    blocks = [list(block) for has_text, block in groupby(lines, lambda line: bool(line[0])) if has_text]
    return [" ".join(line for line, _ in block) for block in blocks], [block[0][1] for block in blocks]


DOCUMENTS: dict[str, Callable[[PlainText], PlacedTexts]] = {"lines": by_line, "blocks": by_block}


class Passages:
    """Documents one after the other in `ids`.  A window is as much of one document as is read at once."""

    def __init__(self, text: PlainText, documents: str, width: int, tokenizer: Tokenizer, cache: Path | None):
        self.text = text
        texts, self.places = DOCUMENTS[documents](text)
        self.shard: TokenShard = shard(texts, tokenizer, cache)
        self.ids, self.offsets = self.shard.ids, self.shard.offsets
        self.notes = Notes()
        self.notes.update(text.notes)
        lengths = self.shard.lengths
        short = np.flatnonzero(lengths < FEWEST)
        if len(short):
            self.notes.add("skipped: a document of fewer than two tokens", self.places[short[0]], len(short))
        # A long document is cut into windows of about the same size, so that none is left with hardly any context.
        n_pieces = np.where(lengths < FEWEST, 0, -(-lengths // width))
        self.document = np.repeat(np.arange(len(lengths)), n_pieces)  # of each window
        if not len(self.document):
            raise DataError(f"{text.places[0]}: no document has {FEWEST} tokens or more; give more text")
        piece = ranges(n_pieces)
        first, length, n = self.offsets[self.document], lengths[self.document], n_pieces[self.document]
        self.starts, self.stops = first + piece * length // n, first + (piece + 1) * length // n
        self.lengths = self.stops - self.starts  # of the windows
        ends_here = np.array([tokenizer.token(i).rstrip().endswith(ENDINGS) for i in range(tokenizer.vocab_size)])
        after = np.flatnonzero(ends_here[self.ids]) + 1
        self.sentences = np.union1d(self.offsets[:-1], after[after < len(self.ids)])  # where they begin

    def __len__(self) -> int:
        """Windows."""
        return len(self.document)

    def where(self, window: int) -> str:
        return self.places[self.document[window]]

    def cuts(self, windows: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """A place inside each window where a sentence begins, or any place where none does; `chance` in [0, 1)."""
        starts, stops = self.starts[windows], self.stops[windows]
        low = np.searchsorted(self.sentences, starts, side="right")
        n = np.searchsorted(self.sentences, stops, side="left") - low
        among = self.sentences[np.minimum(low + (chance * n).astype(np.int64), len(self.sentences) - 1)]
        anywhere = starts + 1 + (chance * (stops - starts - 1)).astype(np.int64)
        return np.where(n > 0, among, anywhere)

    def elsewhere(self, windows: np.ndarray, lengths: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each window a text of about `lengths` tokens that begins with a sentence of another document (where there
        is another): where it begins and ends."""
        place = (chance * len(self.ids)).astype(np.int64)
        document = np.searchsorted(self.offsets, place, side="right") - 1
        is_own = document == self.document[windows]
        document = np.where(is_own, (document + 1) % len(self.shard), document)
        first, stop = self.offsets[document], self.offsets[document + 1]
        place = np.where(is_own, first, place)
        latest = np.maximum(np.minimum(place, stop - lengths), first)
        starts = self.sentences[np.searchsorted(self.sentences, latest, side="right") - 1]
        return starts, np.minimum(starts + lengths, stop)
