"""Passages of documents with masked words as batches: <s> a </s>, or <s> a </s> b </s> where b may not follow a."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import SequenceBatch, middle, n_within
from regard.data.batching.computed_order import PooledEpochs
from regard.data.batching.noise import Hiding, chances, keys
from regard.data.batching.packing import Packing
from regard.data.batching.passages import LONGEST_WORD, Passages, within_text
from regard.nn.layout import Ragged, filled, rounded
from regard.nn.loss import IGNORED
from regard.text.dropout import ranges
from regard.text.table import FlatTokens
from regard.text.tokenizer import Tokenizer

N_FIXED = {False: 2, True: 3}  # special tokens of a passage, without and with a second part
FOLLOWS, OTHER = 0, 1  # the answers to whether b follows a, as the authors number them


@dataclass(frozen=True)
class MaskedBatch(SequenceBatch):
    """Flat rows of tokens, some of them masked."""

    places: Tensor  # M, the rows of masked words
    labels: Tensor  # M, what they were
    follows: Tensor | None  # B, 0 where the second part follows the first, 1 where not; None: this is not asked
    words_each: Tensor  # (), how many masked words there are for each passage
    n_added: tuple[int, int] = (0, 0)  # rows and masked words that `filled` added

    is_fillable: ClassVar[bool] = True

    @property
    def n_targets(self) -> int:
        return len(self.labels) - self.n_added[1]

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows - self.n_added[0]

    def filled(self) -> Self:
        """The same with passages added that nothing is learned from, so that all batches together have few shapes.
        Added words are those of a row of its own: the gradient of a row that is asked for twice is that of one."""
        n_rows, n_passages = self.layout.n_rows, self.layout.n_sequences
        (layout,) = filled(Ragged(torch.cat([self.layout.lengths, torch.ones(1, dtype=torch.long)])))
        n_words = rounded(len(self.labels)) - len(self.labels)
        follows = self.follows
        if follows is not None:
            follows = F.pad(follows, (0, layout.n_sequences - n_passages), value=IGNORED)
        return replace(
            self,
            tokens=F.pad(self.tokens, (0, layout.n_rows - n_rows)),
            layout=layout,
            places=F.pad(self.places, (0, n_words), value=n_rows),
            labels=F.pad(self.labels, (0, n_words), value=IGNORED),
            follows=follows,
            n_added=(layout.n_rows - n_rows, n_words),
        )

    def halves(self) -> list[Self]:
        return [self.between(*ends) for ends in middle(self.layout)]

    def between(self, first: int, last: int) -> Self:
        """With as many words for each passage as the whole has: its two means stay what they are."""
        rows = self.layout.rows_of(first, last)
        is_in = (self.places >= rows.start) & (self.places < rows.stop)
        return replace(
            self,
            lines=self.lines[first:last],
            tokens=self.tokens[rows],
            layout=self.layout.part(first, last),
            places=self.places[is_in] - rows.start,
            labels=self.labels[is_in],
            follows=None if self.follows is None else self.follows[first:last],
            n_added=(
                n_within(rows, self.layout.n_rows, self.n_added[0]),
                int((self.labels[is_in] == IGNORED).sum()),
            ),
        )


class MaskedPassages:
    """Makes passages of a corpus.  All chance is a function of (seed, draw, window)."""

    def __init__(self, corpus: Passages, tokenizer: Tokenizer, share: float, nsp: bool):
        self.corpus, self.tokenizer, self.nsp, self.notes = corpus, tokenizer, nsp, corpus.notes
        self.start, self.end = tokenizer.start_id, tokenizer.end_id
        no_words = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id, tokenizer.unknown_id}
        words = [i for i in range(tokenizer.vocab_size) if i not in no_words and tokenizer.decode([i])]
        self.hiding = Hiding(share, tokenizer.special_id("<mask>"), np.array(words, np.int64))
        self.n_fixed = N_FIXED[nsp]

    @property
    def lengths(self) -> np.ndarray:
        return self.corpus.lengths + self.n_fixed

    def packing(self, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return self.corpus.packing(self.n_fixed, budget, order, seed)

    def describe(self) -> str:
        corpus = self.corpus
        return f"{len(corpus.ids):,} tokens in {len(corpus.places):,} documents, {len(corpus):,} passages"

    def batch(self, windows: np.ndarray, seed: int, draw: int) -> MaskedBatch:
        drawn = keys(seed, draw, self.corpus.numbers(windows))
        whole = self.corpus.spans(windows)
        parts, follows = self.pairs(windows, chances(drawn, 3)) if self.nsp else ([self.corpus.gather(*whole)], None)
        lengths = np.sum([n + 1 for _, n in parts], axis=0) + 1
        tokens = np.full(int(lengths.sum()), self.end, np.int64)
        fixed = np.ones(len(tokens), bool)
        place = np.cumsum(lengths) - lengths
        tokens[place] = self.start
        for ids, n in parts:
            rows = np.repeat(place + 1, n) + ranges(n)
            tokens[rows], fixed[rows] = ids, False
            place = place + n + 1
        hidden = self.hiding.hide(tokens, lengths, fixed, drawn)
        return MaskedBatch(
            lines=self.corpus.where(windows),
            tokens=torch.from_numpy(hidden.tokens),
            layout=Ragged(lengths),
            places=torch.from_numpy(hidden.places),
            labels=torch.from_numpy(hidden.labels),
            follows=None if follows is None else torch.from_numpy(follows),
            words_each=torch.tensor(len(hidden.labels) / len(windows)),
        )

    def pairs(self, windows: np.ndarray, chance: np.ndarray) -> tuple[list[FlatTokens], np.ndarray]:
        """A window cut in two; in half of the cases a text from elsewhere, about as long, takes the second place."""
        starts, stops = self.corpus.spans(windows)
        cuts = self.corpus.cuts(windows, chance[:, 0])
        others = self.corpus.elsewhere(windows, stops - cuts, chance[:, 1])
        is_other = chance[:, 2] < 0.5
        second = np.where(is_other, others[0], cuts), np.where(is_other, others[1], stops)
        texts = [self.corpus.gather(starts, cuts), self.within_documents(*second, most=stops - cuts)]
        return texts, np.where(is_other, OTHER, FOLLOWS)

    def within_documents(self, starts: np.ndarray, stops: np.ndarray, most: np.ndarray) -> FlatTokens:
        """The texts between these places.  One that begins its document is read as if it stood inside, and has at most
        so many tokens: only a text that does not follow begins one, and the missing space would give it away."""
        ids, n = self.corpus.gather(starts, stops)
        document = np.searchsorted(self.corpus.offsets, starts, side="right") - 1
        first = np.flatnonzero((self.corpus.offsets[document] == starts) & (n > 0))
        if not len(first):
            return ids, n
        texts = np.split(ids, np.cumsum(n)[:-1])
        for i in first:
            beginning = self.corpus.shard[document[i]][: most[i] + LONGEST_WORD]  # its first word may get shorter
            texts[i] = np.array(within_text(beginning.tolist(), self.tokenizer)[: most[i]], ids.dtype)
        return np.concatenate(texts), np.array([len(text) for text in texts])

    def all_batches(self, batch_tokens: int) -> Iterator[MaskedBatch]:
        """Every passage once, always with the same words masked."""
        for part in self.corpus.in_order(self.n_fixed, batch_tokens):
            yield self.batch(part, seed=0, draw=0)
