"""Documents as tokens, and the windows that are cut from them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from regard.data.batching.computed_order import PooledEpochs
from regard.data.batching.packing import Packing, cut
from regard.data.batching.shards import TokenShard, shard
from regard.data.files.plain import PlainText
from regard.data.notes import Notes
from regard.errors import DataError
from regard.text.dropout import ranges
from regard.text.table import FlatTokens
from regard.text.tokenizer import Tokenizer

ENDINGS = (".", "!", "?", "。", "！", "？")  # a token that ends so is taken for the end of a sentence
FEWEST = 2  # tokens of a document: one alone has nothing around it
LONGEST_WORD = 32  # tokens, that are searched for the space after it

PlacedTexts = tuple[Sequence[str], Sequence[str]]  # and the place of each


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


def sentence_ends(tokenizer: Tokenizer) -> np.ndarray:
    """V, whether a token ends a sentence."""
    return np.array([tokenizer.token(i).rstrip().endswith(ENDINGS) for i in range(tokenizer.vocab_size)])


def brings_space(token: str) -> bool:
    """Whether it begins with the space before a word."""
    return token[:1].isspace()


def word_beginnings(tokenizer: Tokenizer) -> np.ndarray:
    """V, whether a token begins a word; none does in a vocabulary without spaces."""
    return np.array([brings_space(tokenizer.token(i)) for i in range(tokenizer.vocab_size)])


def within_text(ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """A text as it is read inside another: "It is" as " It is", where a token brings along the space before its word.
    Only the tokens of the first word change; those of a tokenizer that puts a space before every text do not."""
    beginning = list(ids[:LONGEST_WORD])
    n = next((n for n, i in enumerate(beginning) if brings_space(tokenizer.token(i))), len(beginning))
    word = tokenizer.decode(beginning[:n])
    has_no_spaces = n == len(beginning) and not word.isascii()  # 日本語
    if not word or has_no_spaces or tokenizer.unknown_id in beginning[:n]:  # what is unknown cannot be encoded again
        return list(ids)
    return [*tokenizer.encode(" " + word), *ids[n:]]


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
        self.ends_here, self.begins_here = sentence_ends(tokenizer), word_beginnings(tokenizer)
        after = np.flatnonzero(self.ends_here[self.ids]) + 1
        self.sentences = np.union1d(self.offsets[:-1], after[after < len(self.ids)])  # where they begin

    def __len__(self) -> int:
        """Windows."""
        return len(self.document)

    def where(self, windows: np.ndarray) -> list[str]:
        return [self.places[i] for i in self.document[windows]]

    def spans(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where they begin and end."""
        return self.starts[windows], self.stops[windows]

    def gather(self, starts: np.ndarray, stops: np.ndarray) -> FlatTokens:
        """The tokens between these places."""
        n = stops - starts
        return self.ids[np.repeat(starts, n) + ranges(n)], n

    def numbers(self, windows: np.ndarray) -> np.ndarray:
        """Of each window one that no other has: what chance does to it depends on this."""
        return windows

    def packing(self, n_fixed: int, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        """Batches of windows, each with so many tokens more."""
        return Packing(self.lengths + n_fixed, budget, order, seed)

    def in_order(self, n_fixed: int, budget: int) -> Iterator[np.ndarray]:
        yield from cut(np.arange(len(self)), self.lengths + n_fixed, budget)

    def for_report(self) -> tuple[PlainText, int]:
        return self.text, len(self.text.lines)

    def cuts(self, windows: np.ndarray, chance: np.ndarray) -> np.ndarray:
        """A place inside each window where a sentence begins, or, where none does, a word that brings its space along,
        or any place where there is none either; `chance` in [0, 1)."""
        starts, stops = self.spans(windows)
        n_inside = stops - starts - 1
        window = np.repeat(np.arange(len(starts)), n_inside)
        places = starts[window] + 1 + ranges(n_inside)
        fits = np.ones(len(places), bool)
        for begins in (self.begins_here[self.ids[places]], self.ends_here[self.ids[places - 1]]):
            has_one = np.bincount(window, begins, len(starts)) > 0
            fits = np.where(has_one[window], begins, fits)
        n = np.bincount(window, fits, len(starts)).astype(np.int64)
        fitting = np.append(places[fits], 0)
        return np.where(n > 0, fitting[np.cumsum(n) - n + (chance * n).astype(np.int64)], stops)

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
