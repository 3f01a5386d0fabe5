"""A search that waits, runs or is done."""

from collections.abc import Callable

from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search

TokenListener = Callable[[list[int]], None]  # is told, after every step, all tokens of the answer that are certain


class Ticket:
    def __init__(self, search: Search, listener: TokenListener | None = None) -> None:
        self.search, self.listener = search, listener
        self.hypotheses: list[Hypothesis] | None = None  # best first, when it is done
        self.error: Exception | None = None
        self.is_cancelled = False

    @property
    def is_over(self) -> bool:
        return self.hypotheses is not None or self.error is not None or self.is_cancelled

    def cancel(self) -> None:
        """Nobody waits for it any more: its rows are free after the step that runs now."""
        self.is_cancelled = True

    def answer(self) -> list[Hypothesis]:
        if self.error is not None:
            raise self.error
        assert self.hypotheses is not None, "not done yet"
        return self.hypotheses
