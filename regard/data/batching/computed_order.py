"""Epochs of data that are too many to be held in memory: an order that is computed, not kept, and batches of one pool
of examples at a time.

The order depends on (seed, epoch); a place in it is (epoch, index), as in packing.py.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from regard.choose import choose
from regard.data.batching.packing import ORDERS, Packing, cut, shuffled
from regard.errors import ConfigError, DataError
from regard.text.dropout import scramble, scramble_all

__all__ = ["ComputedOrder", "Everything", "FitItems", "Packing", "PooledEpochs", "in_pools", "sample"]
POOL = 2**16  # examples that are looked at together
SAMPLE = 100_000  # examples that a report looks at
ROUNDS = 4  # of the Feistel network: with four, a permutation cannot be told from chance (Luby and Rackoff 1988)

FitItems = tuple[np.ndarray, np.ndarray]  # examples that are fit, or what they are cut into; what each counts
MeasureExamples = Callable[[np.ndarray], FitItems]


class ComputedOrder:
    """A bijection on 0 .. n-1 that takes no memory: (left, right) → (right, left + f(right)), four times, on a square
    of at least n places; what falls outside of the n goes on until it is inside."""

    def __init__(self, n: int, *key: int):
        self.n = n
        self.side = np.uint64(max(int(np.ceil(np.sqrt(n))), 1))
        seed = 0
        for number in key:
            seed = scramble(seed ^ number)
        self.keys = [np.uint64(scramble(seed ^ (number + 1))) for number in range(ROUNDS)]

    def __call__(self, places: np.ndarray) -> np.ndarray:
        values = self.once(places.astype(np.uint64))
        while len(outside := np.flatnonzero(values >= self.n)):
            values[outside] = self.once(values[outside])
        return values.astype(np.int64)

    def once(self, values: np.ndarray) -> np.ndarray:
        left, right = values // self.side, values % self.side
        for key in self.keys:
            left, right = right, np.mod(left + scramble_all(right ^ key) % self.side, self.side)
        return left * self.side + right


class Epoch(Sequence[np.ndarray]):
    """The batches of one epoch, pool by pool."""

    def __init__(self, n: int, make: Callable[[int], list[np.ndarray]]):
        self.n_pools, self.make = -(-n // POOL), make
        self.latest: tuple[int, list[np.ndarray]] = (-1, [])

    @cached_property
    def ends(self) -> list[int]:
        """Batches up to the end of each pool: one look at all lengths, and two numbers kept of each pool."""
        ends, total = [], 0
        for pool in range(self.n_pools):
            total += len(self.make(pool))
            ends.append(total)
        return ends

    def __len__(self) -> int:
        return self.ends[-1]

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        pool = 0 if index < 0 else self.pool_of(index)
        if index < 0 or pool >= self.n_pools:
            raise IndexError(f"batch {index} of {len(self)}")
        latest = self.latest  # looked at once: another thread may be a pool ahead
        if latest[0] != pool:
            latest = self.latest = (pool, self.make(pool))
        return latest[1][index - (self.ends[pool - 1] if pool else 0)]

    def pool_of(self, index: int) -> int:
        return bisect_right(self.ends, index)

    def __iter__(self) -> Iterator[np.ndarray]:
        for pool in range(self.n_pools):
            yield from self.make(pool)


class PooledEpochs:
    """Batches of examples or windows, every one exactly once an epoch: as `Packing`, but neither the order nor the
    lengths are in memory."""

    def __init__(self, n: int, measure: MeasureExamples, budget: int, order: str, seed: int):
        if budget < 1 or seed < 0:
            raise ConfigError(f"batch_tokens must be at least 1 and seed at least 0, got {budget} and {seed}")
        choose(ORDERS, order, "order")
        self.n, self.measure, self.budget, self.order, self.seed = n, measure, budget, order, seed
        self.latest: tuple[int, Epoch | None] = (-1, None)

    def epoch(self, epoch: int) -> Epoch:
        number, batches = self.latest  # looked at once: another thread may be an epoch ahead
        if number != epoch or batches is None:
            permutation = ComputedOrder(self.n, self.seed, epoch)
            batches = Epoch(self.n, lambda pool: self.batches(permutation, epoch, pool))
            if not len(batches):
                raise DataError("no examples are left to make batches of; see what was dropped, and data.max_length")
            self.latest = (epoch, batches)
        return batches

    def batches(self, permutation: ComputedOrder, epoch: int, pool: int) -> list[np.ndarray]:
        """Of one pool; where they are grouped, sorted by length within it and then shuffled."""
        chosen = permutation(np.arange(pool * POOL, min((pool + 1) * POOL, self.n)))
        items, lengths = self.measure(chosen)
        if self.order == "random":
            return [items[part] for part in cut(np.arange(len(items)), lengths, self.budget)]
        batches = cut(np.argsort(lengths, kind="stable"), lengths, self.budget)
        return [items[batches[i]] for i in shuffled(len(batches), self.seed, epoch, purpose=1 + pool)]


class Everything:
    """All of n examples, as an array of their places would say it."""

    def __init__(self, n: int):
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        if isinstance(places, slice):
            return np.arange(*places.indices(self.n))
        return np.asarray(places)


def in_pools(n: int, size: int = POOL) -> Iterator[np.ndarray]:
    """0 .. n-1, so many at a time."""
    for start in range(0, n, size):
        yield np.arange(start, min(start + size, n))


def sample(n: int) -> np.ndarray:
    """The places of some of n examples, ascending, chosen by chance, the same each time: what a report looks at."""
    return np.sort(ComputedOrder(n, 0)(np.arange(min(n, SAMPLE))))
