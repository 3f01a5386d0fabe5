"""Which of many cases are fast."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def some_fast(cases: Iterable[Any], every: int) -> list[Any]:
    """The first of every so many cases; the others are slow.  All of them together are walked by `make test-slow`."""
    return [pytest.param(case, marks=pytest.mark.slow if i % every else ()) for i, case in enumerate(cases)]


def diagonal(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Few combinations that have each value of each factor at least once."""
    return [tuple(several[i % len(several)] for several in values) for i in range(max(map(len, values)))]


def covering_fast(*values: Iterable[Any]) -> list[Any]:
    """All combinations of a value of each factor: a covering of the values is fast, the other combinations are slow."""
    factors = [list(several) for several in values]
    fast = diagonal(*factors)
    return [
        pytest.param(*combination, marks=() if combination in fast else pytest.mark.slow)
        for combination in product(*factors)
    ]
