"""Which of many cases are fast."""

from collections.abc import Iterable
from typing import Any

import pytest


def some_fast(cases: Iterable[Any], every: int) -> list[Any]:
    """The first of every so many cases; the others are slow.  All of them together are walked by `make test-slow`."""
    return [pytest.param(case, marks=pytest.mark.slow if i % every else ()) for i, case in enumerate(cases)]
