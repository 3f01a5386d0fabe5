"""Packed batches by token budget.  The order depends on (seed, epoch); a place in it is (epoch, index)."""

from collections.abc import Callable

import numpy as np

from regard.choose import choose
from regard.errors import ConfigError, DataError

POOL = 100  # batches' worth of tokens that "grouped" sorts together


def shuffled(n: int, seed: int, epoch: int, purpose: int = 0) -> np.ndarray:
    """A random permutation of n, from raw random bits: these stay the same from one NumPy to the next."""
    return np.argsort(np.random.PCG64([seed, epoch, purpose]).random_raw(n), kind="stable")


def cut(order: np.ndarray, lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Consecutive batches of at most `budget` tokens; an example that is larger is a batch of its own."""
    ends = np.cumsum(lengths[order])
    batches = []
    start, done = 0, 0
    while start < len(order):
        stop = max(int(np.searchsorted(ends, done + budget, side="right")), start + 1)
        batches.append(order[start:stop])
        start, done = stop, int(ends[stop - 1])
    return batches


def random(lengths: np.ndarray, budget: int, seed: int, epoch: int) -> list[np.ndarray]:
    return cut(shuffled(len(lengths), seed, epoch), lengths, budget)


def grouped(lengths: np.ndarray, budget: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Sorted by length within shuffled pools, so that the lengths in a batch are alike; then shuffled."""
    order = shuffled(len(lengths), seed, epoch)
    pools = np.cumsum(lengths[order]) // (POOL * budget)
    batches = cut(order[np.lexsort((lengths[order], pools))], lengths, budget)
    return [batches[i] for i in shuffled(len(batches), seed, epoch, purpose=1)]


ORDERS: dict[str, Callable[[np.ndarray, int, int, int], list[np.ndarray]]] = {
    "random": random,
    "grouped": grouped,
}


class Packing:
    """Batches of example indices, every example exactly once an epoch."""

    def __init__(self, lengths: np.ndarray, budget: int, order: str, seed: int):
        if not len(lengths):
            raise DataError("no examples are left to make batches of; see what was dropped, and data.max_length")
        if budget < 1 or seed < 0:
            raise ConfigError(f"batch_tokens must be at least 1 and seed at least 0, got {budget} and {seed}")
        self.lengths = np.asarray(lengths, np.int64)
        self.budget = budget
        self.order = choose(ORDERS, order, "order")
        self.seed = seed
        self.latest: tuple[int, list[np.ndarray]] = (-1, [])

    def epoch(self, epoch: int) -> list[np.ndarray]:
        latest = self.latest  # looked at once: another thread may be an epoch ahead
        if latest[0] != epoch:  # the loop asks for one batch after the other of the same epoch
            latest = self.latest = (epoch, self.order(self.lengths, self.budget, self.seed, epoch))
        return latest[1]
