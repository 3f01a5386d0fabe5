"""Which examples are fit to learn from, and packed batches of them by token budget.

The order depends on (seed, epoch); a place in it is (epoch, index).  What is dropped is counted, with its first place.
"""

from collections.abc import Callable, Sequence

import numpy as np

from regard.choose import choose
from regard.data.files.reading import Examples
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

POOL = 100  # batches' worth of tokens that "grouped" sorts together


def select(examples: Examples, lengths: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, Notes]:
    """The indices of the examples fit to learn from, and what was dropped."""
    fit, reasons = fitness(examples, lengths, max_length)
    notes = Notes()
    notes.update(reasons, "dropped: ")
    return np.flatnonzero(fit), notes


def fitness(examples: Examples, lengths: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, Notes]:
    """Which examples have no empty or too long side, and why the others do; `lengths[c]` are tokens of column c."""
    fit = np.ones(len(examples), bool)
    reasons = Notes()

    def refuse(bad: np.ndarray, reason: str, column: int = 0) -> None:
        bad = bad & fit  # an example counts once, for the first reason
        if bad.any():
            reasons.add(reason, examples.where(int(bad.argmax()), column), int(bad.sum()))
            fit[bad] = False

    blank = np.array([[not text.strip() for text in column] for column in examples.columns])
    refuse(np.logical_and.reduce(blank), "empty line" if len(blank) == 1 else "empty on every side")
    for c, (name, side) in enumerate(zip(examples.names, blank, strict=True)):
        refuse(side, f"{name} is empty", c)
    for c, (name, tokens) in enumerate(zip(examples.names, lengths, strict=True)):
        refuse(np.asarray(tokens) == 0, f"{name} has no tokens", c)
        refuse(np.asarray(tokens) > max_length, f"{name} is longer than {max_length} tokens", c)
    return fit, reasons


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


ORDERS: dict[str, Callable[[np.ndarray, int, int, int], list[np.ndarray]]] = {"random": random, "grouped": grouped}


class Packing:
    """Batches of example indices, every example exactly once an epoch."""

    def __init__(self, lengths: np.ndarray, budget: int, order: str, seed: int):
        if not len(lengths):
            raise DataError("no examples are left to make batches of; see what was dropped, and data.max_length")
        if budget < 1 or seed < 0:
            raise ConfigError(f"batch_tokens must be at least 1 and seed at least 0, got {budget} and {seed}")
        self.lengths, self.budget, self.seed = np.asarray(lengths, np.int64), budget, seed
        self.order = choose(ORDERS, order, "order")
        self.latest: tuple[int, list[np.ndarray]] = (-1, [])

    def epoch(self, epoch: int) -> list[np.ndarray]:
        latest = self.latest  # looked at once: another thread may be an epoch ahead
        if latest[0] != epoch:  # the loop asks for one batch after the other of the same epoch
            latest = self.latest = (epoch, self.order(self.lengths, self.budget, self.seed, epoch))
        return latest[1]
