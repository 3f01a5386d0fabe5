"""Texts that stay in their files, and the line of each."""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload


class FileTexts(Sequence[str]):
    """n texts that `read` gives one after the other, each time from the beginning."""

    def __init__(self, read: Callable[[], Iterator[str]], n: int):
        self.read, self.n = read, n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[str]:
        return self.read()

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        """By reading up to it: for a few."""
        if isinstance(i, slice):
            return pick(self, range(*i.indices(self.n)))
        return pick(self, [range(self.n)[i]])[0]


def pick(texts: Iterable[str], places: Iterable[int]) -> list[str]:
    """Those at these places (ascending), in one pass."""
    chosen, wanted = [], iter(places)
    next_place = next(wanted, None)
    for i, text in enumerate(texts):
        if next_place is None:
            break
        if i == next_place:
            chosen.append(text)
            next_place = next(wanted, None)
    return chosen


class LineNumbers:
    """The line of each record, kept as the few places where lines were skipped."""

    def __init__(self) -> None:
        # From record r on, a record's line is its number plus the shift.
        self.records, self.shifts = array("q", [0]), array("q", [1])

    def add(self, record: int, line: int) -> None:
        if line - record != self.shifts[-1]:
            self.records.append(record)
            self.shifts.append(line - record)

    def __getitem__(self, record: int) -> int:
        return int(record) + self.shifts[bisect_right(self.records, record) - 1]
