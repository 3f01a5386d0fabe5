"""Documents of a text that stays on disk."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from regard.data.batching.computed_order import FitItems, PooledEpochs, in_pools
from regard.data.batching.packing import Packing, cut
from regard.data.batching.passages import FEWEST, Passages, PlacedTexts, sentence_ends, word_beginnings
from regard.data.batching.shards import shard
from regard.data.batching.streams import sampled_text
from regard.data.files.on_disk import FileTexts
from regard.data.files.plain import PlainText
from regard.data.notes import Notes
from regard.errors import DataError
from regard.text.dropout import ranges
from regard.text.tokenizer import Tokenizer


def by_large_line(text: PlainText) -> PlacedTexts:
    """Every line; one of white space is a document of no tokens."""
    return FileTexts(lambda: (line if line.strip() else "" for line in text.lines), len(text.lines)), text.places


def by_large_block(text: PlainText) -> PlacedTexts:
    def blocks() -> Iterator[tuple[int, str]]:
        numbered = enumerate(line.strip() for line in text.lines)
        for has_text, block in groupby(numbered, lambda line: bool(line[1])):
            if has_text:
                first, line = next(block)
                yield first, " ".join([line, *(line for _, line in block)])

    firsts = array("q", (first for first, _ in blocks()))  # a number for each document
    return FileTexts(lambda: (block for _, block in blocks()), len(firsts)), BlockPlaces(text.places, firsts)


LARGE_DOCUMENTS: dict[str, Callable[[PlainText], PlacedTexts]] = {"lines": by_large_line, "blocks": by_large_block}


class LargePassages(Passages):
    """Documents that stay on disk.  A window is a row: where it begins, where it ends, its document."""

    def __init__(
        self, text: PlainText, documents: str, width: int, tokenizer: Tokenizer, cache: Path | None, processes: int
    ):
        self.text, self.width = text, width
        texts, self.places = LARGE_DOCUMENTS[documents](text)
        digest = f"{text.digest} documents {documents}" if text.digest else ""
        self.shard = shard(texts, tokenizer, cache, processes=processes, digest=digest)
        self.ids, self.offsets = self.shard.ids, self.shard.offsets
        self.ends_here, self.begins_here = sentence_ends(tokenizer), word_beginnings(tokenizer)
        self.notes = Notes()
        self.notes.update(text.notes)
        self.n_windows = 0
        for documents_here in in_pools(len(self.shard)):
            lengths = np.diff(self.offsets[documents_here[0] : documents_here[-1] + 2])
            short = documents_here[(lengths > 0) & (lengths < FEWEST)]
            if len(short):
                self.notes.add("skipped: a document of fewer than two tokens", self.places[int(short[0])], len(short))
            self.n_windows += int((-(-lengths[lengths >= FEWEST] // width)).sum())
        if not self.n_windows:
            raise DataError(f"{text.places[0]}: no document has {FEWEST} tokens or more; give more text")

    def __len__(self) -> int:
        return self.n_windows

    @property
    def lengths(self) -> np.ndarray:
        """Of the windows; worked out anew each time."""
        pools = in_pools(len(self.shard))
        return np.concatenate([stops - starts for starts, stops in map(self.spans, map(self.cut, pools))])

    def cut(self, documents: np.ndarray) -> np.ndarray:
        """The windows of some documents, (n, 3)."""
        first, lengths = self.offsets[documents], self.offsets[documents + 1] - self.offsets[documents]
        n_pieces = np.where(lengths < FEWEST, 0, -(-lengths // self.width))
        first, length, n, document = (np.repeat(part, n_pieces) for part in (first, lengths, n_pieces, documents))
        piece = ranges(n_pieces)
        return np.stack([first + piece * length // n, first + (piece + 1) * length // n, document], 1)

    def where(self, windows: np.ndarray) -> list[str]:
        return [self.places[int(i)] for i in windows[:, 2]]

    def spans(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return windows[:, 0], windows[:, 1]

    def numbers(self, windows: np.ndarray) -> np.ndarray:
        return windows[:, 0]

    def packing(self, n_fixed: int, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        def measure(documents: np.ndarray) -> FitItems:
            windows = self.cut(documents)
            return windows, windows[:, 1] - windows[:, 0] + n_fixed

        return PooledEpochs(len(self.shard), measure, budget, order, seed)

    def in_order(self, n_fixed: int, budget: int) -> Iterator[np.ndarray]:
        for documents in in_pools(len(self.shard)):
            windows = self.cut(documents)
            for chosen in cut(np.arange(len(windows)), windows[:, 1] - windows[:, 0] + n_fixed, budget):
                yield windows[chosen]

    def for_report(self) -> tuple[PlainText, int]:
        return sampled_text(self.text)

    def elsewhere(self, windows: np.ndarray, lengths: np.ndarray, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = (chance * len(self.ids)).astype(np.int64)
        spans = [self.other_text(*row) for row in zip(windows[:, 2], lengths, places, strict=True)]
        return np.array([start for start, _ in spans], np.int64), np.array([stop for _, stop in spans], np.int64)

    def other_text(self, own: int, length: int, place: int) -> tuple[int, int]:
        """About so many tokens of the document at a place, or, where this is the own one, of the next that has any."""
        document = int(np.searchsorted(self.offsets, place, side="right")) - 1
        if document == own:
            document = (document + 1) % len(self.shard)
            while self.offsets[document] == self.offsets[document + 1]:
                document = (document + 1) % len(self.shard)
            place = int(self.offsets[document])
        first, stop = int(self.offsets[document]), int(self.offsets[document + 1])
        latest = max(min(place, stop - int(length)), first)
        begins = np.flatnonzero(self.ends_here[self.ids[first:latest]]) + first + 1
        start = int(begins[-1]) if len(begins) else first
        return start, min(start + int(length), stop)


class BlockPlaces(Sequence[str]):
    """The place of the first line of each document."""

    def __init__(self, places: Sequence[str], firsts: Sequence[int]):
        self.places, self.firsts = places, firsts

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, i: int) -> str:  # type: ignore[override]
        return self.places[self.firsts[i]]
