"""Passages of documents with hidden words as batches: <s> a </s>, or <s> a </s> b </s> where b may not follow a."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.data.batching.documents import Passages
from regard.data.batching.masking import Hiding, chances, keys
from regard.data.batching.packing import cut
from regard.nn.layout import Ragged
from regard.text.tokenizer import Tokenizer

N_FIXED = {False: 2, True: 3}  # special tokens of a passage, without and with a second part
FOLLOWS, OTHER = 0, 1  # the answers to whether b follows a, as the authors number them


@dataclass(frozen=True)
class HiddenBatch(Batch):
    """Flat rows of tokens, some of them hidden."""

    tokens: Tensor  # N
    layout: Ragged
    places: Tensor  # M, the rows of hidden words
    labels: Tensor  # M, what they were
    follows: Tensor | None  # B, 0 where the second part follows the first, 1 where not; None: this is not asked

    @property
    def n_targets(self) -> int:
        return len(self.labels)

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


class Hider:
    """Makes passages of a corpus.  All chance is a function of (seed, draw, window)."""

    def __init__(self, corpus: Passages, tokenizer: Tokenizer, share: float, nsp: bool):
        self.corpus, self.nsp = corpus, nsp
        self.start, self.end = tokenizer.start_id, tokenizer.end_id
        no_words = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
        words = [i for i in range(tokenizer.vocab_size) if i not in no_words and tokenizer.decode([i])]
        self.hiding = Hiding(share, tokenizer.special_id("<mask>"), np.array(words, np.int64))
        self.lengths = corpus.lengths + N_FIXED[nsp]

    def batch(self, windows: np.ndarray, seed: int, draw: int) -> HiddenBatch:
        drawn = keys(seed, draw, windows)
        parts, follows = self.pairs(windows, chances(drawn, 3)) if self.nsp else (self.wholes(windows), None)
        lengths = sum(stops - starts + 1 for starts, stops in parts) + 1
        tokens = np.full(int(lengths.sum()), self.end, np.int64)
        fixed = np.ones(len(tokens), bool)
        place = np.cumsum(lengths) - lengths
        tokens[place] = self.start
        for starts, stops in parts:
            n = stops - starts
            rank = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            rows = np.repeat(place + 1, n) + rank
            tokens[rows], fixed[rows] = self.corpus.ids[np.repeat(starts, n) + rank], False
            place = place + n + 1
        hidden = self.hiding.hide(tokens, lengths, fixed, drawn)
        return HiddenBatch(
            lines=[self.corpus.where(i) for i in windows],
            tokens=torch.from_numpy(hidden.tokens),
            layout=Ragged(lengths),
            places=torch.from_numpy(hidden.places),
            labels=torch.from_numpy(hidden.labels),
            follows=None if follows is None else torch.from_numpy(follows),
        )

    def wholes(self, windows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(self.corpus.starts[windows], self.corpus.stops[windows])]

    def pairs(self, windows: np.ndarray, chance: np.ndarray) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """A window cut in two; in half of the cases a text from elsewhere, about as long, takes the second place."""
        starts, stops = self.corpus.starts[windows], self.corpus.stops[windows]
        cuts = self.corpus.cuts(windows, chance[:, 0])
        others = self.corpus.elsewhere(windows, stops - cuts, chance[:, 1])
        is_other = chance[:, 2] < 0.5
        second = np.where(is_other, others[0], cuts), np.where(is_other, others[1], stops)
        return [(starts, cuts), second], np.where(is_other, OTHER, FOLLOWS)

    def all_batches(self, batch_tokens: int) -> Iterator[HiddenBatch]:
        """Every passage once, always with the same words hidden."""
        for part in cut(np.arange(len(self.corpus)), self.lengths, batch_tokens):
            yield self.batch(part, seed=0, draw=0)
