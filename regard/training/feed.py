"""Batches in order, made a little ahead in a thread while the device computes.

A batch is a function of its (epoch, index), so looking ahead changes nothing and needs no state of its own.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, Self

from regard.errors import DataError
from regard.tasks.setup import B
from regard.tasks.task import BatchTask

AHEAD = 4


class Feed(Generic[B]):
    """Of the batches of every update, each n-th is one of a virtual shard; only those of the own `shards` are made."""

    def __init__(
        self,
        task: BatchTask[B],
        start: tuple[int, int],
        ready: Callable[[B], B],
        is_idle: Callable[[], bool],
        shards: range = range(1),
        n_shards: int = 1,
    ) -> None:
        self.task = task
        self.ready = ready  # brings a batch to the device, as it is wanted there
        self.is_idle = is_idle  # whether the device has done all that it was given
        self.shards, self.n_shards = shards, n_shards
        self.places = enumerate(walk(task, start))
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feed")
        self.coming: deque[tuple[tuple[int, int], Future[B] | None]] = deque()  # None: another process makes it
        self.begun, self.waited = time.monotonic(), 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.shutdown(cancel_futures=True)

    def take(self, n: int) -> tuple[list[B], list[tuple[int, int]]]:
        """Of the next n batches of each shard those that are made here, on the device, and their places."""
        self.order(n * self.n_shards)
        all_taken = [self.coming.popleft() for _ in range(n * self.n_shards)]
        taken = [(place, future) for place, future in all_taken if future is not None]
        for _, future in taken:
            self.wait(future)
        batches = [future.result() for _, future in taken]
        self.order(AHEAD * self.n_shards)
        return batches, [place for place, _ in taken]

    def wait(self, future: Future[B]) -> None:
        """Until a batch is there; what counts as waiting is the time in which the device has nothing to do."""
        while not future.done():
            before = time.monotonic()
            wait([future], timeout=0.001)
            if self.is_idle():
                self.waited += time.monotonic() - before

    @property
    def share_waited(self) -> float:
        """Of the time so far: how long the device had to wait for batches."""
        return self.waited / max(time.monotonic() - self.begun, 1e-9)

    def position(self) -> tuple[int, int]:
        """The place of the next batch."""
        self.order(1)
        return self.coming[0][0]

    def order(self, n: int) -> None:
        while len(self.coming) < n:
            number, place = next(self.places)
            is_own = number % self.n_shards in self.shards
            self.coming.append((place, self.worker.submit(self.make, place) if is_own else None))

    def make(self, place: tuple[int, int]) -> B:
        return self.ready(self.task.batch(*place))


def walk(task: BatchTask[B], start: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Every place from `start` on, epoch after epoch, without end."""
    epoch, first = start
    while True:
        n_batches = task.n_batches(epoch)
        if n_batches < 1:
            raise DataError(f"nothing to learn from: epoch {epoch} has no batches")
        for index in range(first, n_batches):
            yield epoch, index
        epoch, first = epoch + 1, 0
