"""A shortlist of output words: for each line only the most frequent words, those of the line itself, and those that its
words were translated by in training.  Products with the output table are smaller, and some answers change.

As in Marian and CTranslate2 (`vmap`); but a row sees its own list alone, whatever is translated beside it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Self

import numpy as np
import torch
from torch import Tensor

from regard.decoding.interface import Generator, Prompts
from regard.errors import RegardError
from regard.nn.linear import narrowed
from regard.nn.state import S

N_COMPANIONS = 50  # words kept for each word of a source
N_CELLS = 20_000_000  # pairs of words that are counted
N_ITERATIONS = 5  # of expectation maximization


@dataclass(frozen=True)
class AllowedWords:
    frequent: Tensor  # all tokens that were written in training, the most frequent first
    companions: Tensor  # (V, n): what each token of a source was translated by; -1: nothing more

    def allowed(self, prompts: Prompts, n_frequent: int) -> Tensor:
        """Which words may be written after each prompt: (prompts, V)."""
        allowed = torch.zeros(len(prompts), len(self.companions) + 1, dtype=torch.bool)
        allowed[:, self.frequent[:n_frequent]] = True
        for row, prompt in zip(allowed, prompts, strict=True):
            tokens = torch.tensor([*prompt], dtype=torch.long)
            row[tokens] = True
            row[self.companions[tokens].flatten()] = True  # the last column is for nothing (-1)
        return allowed[:, :-1]


def count_words(pairs: Iterable[tuple[np.ndarray, np.ndarray]], n_tokens: int, always: Sequence[int]) -> AllowedWords:
    """From pairs of sources and targets, by IBM's Model 1 (Brown et al. 1993): P(target | source) = Π_j Σ_i t(y_j|x_i).

    `always` are tokens that every list has, such as the end.
    """
    sources, targets, places = [], [], []  # of every pair of words: the two, and the place of the target
    n_cells = n_targets = 0
    for source, target in pairs:
        sources.append(np.tile(source, len(target)).astype(np.int64))
        targets.append(np.repeat(target, len(source)).astype(np.int64))
        places.append(n_targets + np.repeat(np.arange(len(target)), len(source)))
        n_targets += len(target)
        n_cells += len(source) * len(target)
        if n_cells > N_CELLS:
            break
    if not n_cells:
        raise RegardError("there are no pairs of texts from which a shortlist could be counted")
    read, written, place = map(np.concatenate, (sources, targets, places))
    known, cells = np.unique(read * n_tokens + written, return_inverse=True)
    known_read, known_written = known // n_tokens, known % n_tokens
    shares = np.ones(len(known))
    for _ in range(N_ITERATIONS):
        weights = shares[cells]
        weights /= np.bincount(place, weights)[place]
        counts = np.bincount(cells, weights)
        shares = counts / np.bincount(known_read, counts)[known_read]
    order = np.lexsort((known_written, -shares, known_read))
    rank = np.arange(len(order)) - np.searchsorted(known_read[order], known_read[order])
    order, rank = order[rank < N_COMPANIONS], rank[rank < N_COMPANIONS]
    companions = np.full((n_tokens, N_COMPANIONS), -1)
    companions[known_read[order], rank] = known_written[order]
    frequency = np.bincount(known_written, counts, n_tokens)
    frequency[list(always)] = np.inf
    frequent = np.argsort(-frequency, kind="stable")
    return AllowedWords(torch.from_numpy(frequent), torch.from_numpy(companions))


class Narrow:
    """The rows of output tables for some words (W,), taken once."""

    def __init__(self, words: Tensor) -> None:
        self.words = words
        self.n_tokens: int | None = None  # of the table; None: there was none
        self.taken: dict[int, tuple[Tensor, Tensor | None]] = {}

    def __call__(self, table: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if table.is_cuda:
            raise RegardError("a shortlist is for decoding on a CPU: set shortlist = 0")
        self.n_tokens = len(table)
        if id(table) not in self.taken:
            self.taken[id(table)] = table[self.words], None if bias is None else bias[self.words]
        return self.taken[id(table)]


class ShortlistedState(Generic[S]):
    def __init__(self, inner: S, allowed: Tensor, copies: int) -> None:
        self.inner, self.allowed, self.copies = inner, allowed, copies
        self.narrow = Narrow(allowed.any(0).nonzero()[:, 0])

    @property
    def n_rows(self) -> int:
        return self.inner.n_rows

    @property
    def lengths(self) -> Tensor:
        return self.inner.lengths

    def select(self, rows: Tensor) -> None:
        self.inner.select(rows)
        self.hold(self.allowed[rows[:: self.copies] // self.copies])

    def reorder(self, rows: Tensor) -> None:
        self.inner.reorder(rows)

    def truncate(self, lengths: Tensor) -> None:
        self.inner.truncate(lengths)

    def join(self, other: Self) -> None:
        self.inner.join(other.inner)
        self.hold(torch.cat([self.allowed, other.allowed]))

    def hold(self, allowed: Tensor) -> None:
        """The rows of the table are taken again where there are other words."""
        self.allowed, words = allowed, allowed.any(0).nonzero()[:, 0]
        if not torch.equal(words, self.narrow.words):
            self.narrow = Narrow(words)

    def widened(self, logits: Tensor, copies: int) -> Tensor:
        """logits (rows, ..., W) of the words -> (rows, ..., V), with -inf for words that a row may not write."""
        allowed = self.allowed.repeat_interleave(copies, 0)
        allowed = allowed.view(len(allowed), *(1,) * (logits.ndim - 2), -1)
        if self.narrow.n_tokens is None:  # a model without a table of words
            return logits.masked_fill(~allowed, -torch.inf)
        wide = logits.new_full((*logits.shape[:-1], self.narrow.n_tokens), -torch.inf)
        wide[..., self.narrow.words] = logits.masked_fill(~allowed[..., self.narrow.words], -torch.inf)
        return wide


class Shortlisted(Generic[S]):
    """The model, with a shortlist of words for each prompt."""

    is_capturable = reads_on = False

    def __init__(self, model: Generator[S], lists: AllowedWords, n_frequent: int) -> None:
        self.model, self.lists, self.n_frequent = model, lists, n_frequent

    @property
    def device(self) -> torch.device:
        return self.model.device

    def halved(self) -> "Shortlisted[S]":
        return Shortlisted(self.model.halved(), self.lists, self.n_frequent)

    @property
    def max_length(self) -> int:
        return self.model.max_length

    def check_room(self, n_rows: int, room: int) -> None:
        self.model.check_room(n_rows, room)

    def start(
        self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256
    ) -> tuple[ShortlistedState[S], Tensor]:
        allowed = self.lists.allowed(prompts, self.n_frequent)
        narrow = Narrow(allowed.any(0).nonzero()[:, 0])
        token = narrowed.set(narrow)
        try:
            inner, first = self.model.start(prompts, begin, copies, room)
        finally:
            narrowed.reset(token)
        state = ShortlistedState(inner, allowed, copies)
        state.narrow = narrow
        return state, state.widened(first, 1)

    def step(self, tokens: Tensor, state: ShortlistedState[S]) -> Tensor:
        token = narrowed.set(state.narrow)
        try:
            logits = self.model.step(tokens, state.inner)
        finally:
            narrowed.reset(token)
        return state.widened(logits, state.copies)
