"""Contenders in processes of their own, as their users run them.

In one process they disturb each other on a CPU: one's memory is had after the other has torn it, and one's threads wait
busily for a while after their work.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

made: Callable[..., Any]  # in the other process


class Apart:
    """Call it as the function that `make(*arguments)` returns; it runs elsewhere, and the caller waits."""

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: object):
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin, (make, *arguments))

    def __call__(self, *arguments: object) -> Any:
        return self.pool.submit(work, *arguments).result()


def begin(make: Callable[..., Callable[..., Any]], *arguments: object) -> None:
    global made
    made = make(*arguments)


def work(*arguments: object) -> Any:
    return made(*arguments)
