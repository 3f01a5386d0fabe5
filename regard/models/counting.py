"""Counts n-grams and skip pairs in one pass: sparse, and chunk by chunk, so memory follows what is distinct.

Texts come as flat token arrays with the length of each sequence.  Nothing is counted across two sequences, and the
first token of a sequence is given, never predicted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from regard.errors import DataError

CHUNK = 1 << 22  # keys sorted at once

CountedText = tuple[np.ndarray, np.ndarray]  # tokens (N,), the length of each sequence (B,)
Counted = tuple[np.ndarray, np.ndarray]  # sorted distinct keys, how often each came


@dataclass(frozen=True, kw_only=True)
class CountReport:
    n_tokens: int
    n_counts: int  # distinct things counted: what the model holds
    seconds: float

    def __str__(self) -> str:
        return f"{self.n_tokens:,} tokens, {self.n_counts:,} counts, {self.seconds:.1f} s"


class Counter(Protocol):
    def add(self, tokens: np.ndarray, places: np.ndarray) -> None:
        """Count a text: tokens (N,), the place of each in its sequence (N,)."""

    def total(self) -> list[Counted]: ...


class Tally:
    """How often each key came.  Sorted runs of growing size, merged when two are alike: every key moves a few times."""

    def __init__(self) -> None:
        self.runs: list[Counted] = []

    def add(self, keys: np.ndarray) -> None:
        distinct, counts = np.unique(keys, return_counts=True)
        self.runs.append((distinct, counts.astype(np.int32)))
        while len(self.runs) > 1 and len(self.runs[-2][0]) < 2 * len(self.runs[-1][0]):
            self.runs.append(merge(self.runs.pop(), self.runs.pop()))

    def total(self) -> Counted:
        while len(self.runs) > 1:
            self.runs.append(merge(self.runs.pop(), self.runs.pop()))
        return self.runs[0] if self.runs else (np.empty(0, np.int64), np.empty(0, np.int32))


class Nodes:
    """The distinct k-grams: each has a number, by order of arrival, and a count."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)  # sorted; (number of the first k-1 words, last word) in one
        self.numbers = np.empty(0, np.int64)  # of each key
        self.counts = np.empty(0, np.int32)  # by number

    def add(self, keys: np.ndarray, is_counted: np.ndarray) -> np.ndarray:
        """The number of each key; those that `is_counted` are counted."""
        distinct, inverse = np.unique(keys, return_inverse=True)
        place, known = find(self.keys, distinct)
        fresh = distinct[~known]
        numbers = np.empty(len(distinct), np.int64)
        numbers[known] = self.numbers[place[known]]
        numbers[~known] = len(self.keys) + np.arange(len(fresh))
        self.counts = np.concatenate([self.counts, np.zeros(len(fresh), np.int32)])
        self.counts[numbers] += np.bincount(inverse, is_counted, len(distinct)).astype(np.int32)
        self.numbers = insert(self.numbers, numbers[~known], place[~known])
        self.keys = insert(self.keys, fresh, place[~known])
        return numbers[inverse]


class NGrams:
    """All k-grams of 1 ≤ k ≤ order + 1 words, as a tree: the key of a k-gram is the place of its first k-1 words among
    the (k-1)-grams, times (V + 1), plus its last word.  So a key fits in 64 bits at any order.

    A text that begins is preceded by the boundary, word V.
    """

    def __init__(self, vocab_size: int, order: int):
        self.boundary, self.width = vocab_size, vocab_size + 1
        self.words = np.zeros(self.width, np.int32)  # the 1-grams: a word is its own number
        self.inner = [Nodes() for _ in range(order - 1)]  # 2-grams up to order-grams: contexts
        self.longest = Tally()  # (order + 1)-grams
        self.boundaries = [self.boundary]  # the numbers of 1, 2, ... boundaries in a row
        for nodes in self.inner:
            key = np.array([self.boundaries[-1] * self.width + self.boundary])
            self.boundaries.append(int(nodes.add(key, np.zeros(1))[0]))

    def add(self, tokens: np.ndarray, places: np.ndarray) -> None:
        before = list(self.boundaries)  # the k-gram that ends just before the chunk, for each k
        for begin in range(0, len(tokens), CHUNK):
            chunk = tokens[begin : begin + CHUNK].astype(np.int64)
            follows = places[begin : begin + CHUNK] > 0
            self.words += np.bincount(chunk[follows], minlength=self.width).astype(np.int32)
            numbers = chunk
            for k, nodes in enumerate(self.inner):
                keys = self.extend(numbers, before, k, follows, chunk)
                numbers = nodes.add(keys, follows)
            self.longest.add(self.extend(numbers, before, len(self.inner), follows, chunk)[follows])

    def extend(
        self, numbers: np.ndarray, before: list[int], k: int, follows: np.ndarray, words: np.ndarray
    ) -> np.ndarray:
        """The keys of what ends at each word, from the numbers of what is one word shorter."""
        parents = np.concatenate([[before[k]], numbers[:-1]])
        before[k] = int(numbers[-1])
        return np.where(follows, parents, self.boundaries[k]) * self.width + words

    def total(self) -> list[Counted]:
        """For each k, the sorted keys and counts.  Numbers by arrival become places in the sorted keys."""
        levels = [(np.arange(self.width), self.words)]
        ranks = np.arange(self.width)
        for nodes in self.inner:
            keys, order = self.renumber(nodes.keys, ranks)
            arrived = nodes.numbers[order]
            levels.append((keys, nodes.counts[arrived]))
            ranks = np.empty_like(arrived)
            ranks[arrived] = np.arange(len(arrived))
        keys, counts = self.longest.total()
        keys, order = self.renumber(keys, ranks)
        return [*levels, (keys, counts[order])]

    def renumber(self, keys: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        changed = ranks[keys // self.width] * self.width + keys % self.width
        order = np.argsort(changed, kind="stable")
        return changed[order], order


class SkipPairs:
    """(earlier word, last word) → next word, at every distance up to `reach` (0: as far as the sequence goes).

    The key is (last · V + earlier) · V + next: all pairs of one last word lie together.
    """

    def __init__(self, vocab_size: int, reach: int):
        self.vocab_size, self.reach = vocab_size, reach
        self.tally = Tally()

    def add(self, tokens: np.ndarray, places: np.ndarray) -> None:
        furthest = int(places.max(initial=0)) - 1  # from the last word of the longest sequence to its first
        reach = min(self.reach, furthest) if self.reach else furthest
        for begin in range(0, len(tokens), CHUNK):
            for distance in range(1, reach + 1):
                following = begin + np.flatnonzero(places[begin : begin + CHUNK] > distance)
                if len(following):
                    last, earlier = tokens[following - 1].astype(np.int64), tokens[following - 1 - distance]
                    self.tally.add((last * self.vocab_size + earlier) * self.vocab_size + tokens[following])

    def total(self) -> list[Counted]:
        return [self.tally.total()]


def count(texts: Iterable[CountedText], vocab_size: int, counters: list[Counter], needed: int) -> int:
    """One pass over the texts for all counters -> the number of tokens.  Some sequence must have `needed` of them."""
    n_tokens = longest = 0
    for tokens, given_lengths in texts:
        lengths = np.asarray(given_lengths, np.int64)
        if int(lengths.sum()) != len(tokens):
            raise DataError(
                f"the lengths of the sequences make {int(lengths.sum())} tokens, but there are {len(tokens)}"
            )
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < vocab_size:
            wrong = int(tokens.max()) if int(tokens.max()) >= vocab_size else int(tokens.min())
            raise DataError(f"token {wrong} is outside of the vocabulary, which has {vocab_size}")
        n_tokens += len(tokens)
        longest = max(longest, int(lengths.max(initial=0)))
        places = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        for counter in counters:
            counter.add(tokens, places)
    if longest < needed:
        raise DataError(
            f"this order needs a sequence of at least {needed} tokens, and the longest of the text has {longest}: "
            "lower the order or give longer sequences"
        )
    return n_tokens


def merge(a: Counted, b: Counted) -> Counted:
    (keys, counts), (new, new_counts) = sorted((a, b), key=lambda run: len(run[0]), reverse=True)
    place, known = find(keys, new)
    counts[place[known]] += new_counts[known]
    return insert(keys, new[~known], place[~known]), insert(counts, new_counts[~known], place[~known])


def find(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each wanted key is or belongs among sorted keys, and whether it is there."""
    place = np.searchsorted(keys, wanted)
    known = place < len(keys)
    known[known] = keys[place[known]] == wanted[known]
    return place, known


def insert(values: np.ndarray, new: np.ndarray, place: np.ndarray) -> np.ndarray:
    """`values` with new[i] put before values[place[i]]; places ascend."""
    if not len(new):
        return values
    target = place + np.arange(len(new))
    is_old = np.ones(len(values) + len(new), bool)
    is_old[target] = False
    together = np.empty(len(is_old), values.dtype)
    together[target] = new
    together[is_old] = values
    return together
