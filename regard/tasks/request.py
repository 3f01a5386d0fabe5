"""A request: what is asked of a run by a verb.  The Python method, the command and (later) the HTTP route are made from
its fields, so this file and every `verbs.py` must not import PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

A = TypeVar("A")


@dataclass(frozen=True, kw_only=True)
class Help:
    """An option of the command line; a field without one can be set in Python alone."""

    text: str
    least: int | None = None
    for_every_line: str = ""  # an option of this name takes one value, and every line gets it


@dataclass(frozen=True)
class Request(Generic[A]):
    """A is what is answered to one of the things that it asks about."""

    name: ClassVar[str]  # of the Python method, the command and the route


@dataclass(frozen=True)
class LineRequest(Request[A], ABC):
    """Its first field are texts, one answer for each: N lines in, N lines out."""

    takes_texts: ClassVar[bool] = False  # the command takes texts as arguments, not only a file of lines
    takes_whole: ClassVar[bool] = False  # the command can take all of its input as one text (--whole)
    joins_runs: ClassVar[bool] = False  # several runs can answer together (--with)
    gives_n_best: ClassVar[bool] = False  # --json gives the other n_best answers, too
    silent: ClassVar[tuple[str, ...]] = ()  # notes that are not printed, because the answer shows them

    @abstractmethod
    def line(self, answer: A) -> str:
        """The answer as one line of output."""

    @abstractmethod
    def record(self, number: int, text: str, answer: A) -> dict[str, object]:
        """The answer to one line of input as JSON (--json)."""

    def more(self, answer: A) -> list[str]:
        """Further lines, for texts that were given as arguments."""
        return []


AnyRequest = Request[Any]  # whatever it answers
AnyLineRequest = LineRequest[Any]


@dataclass(frozen=True)
class Embed(Request[list[float]]):
    """One vector for each line, (lines, D): of the rows that the model reads from it, whatever its task."""

    name = "embed"  # the command can write a NumPy file

    lines: Sequence[str]
    pooling: str = "mean"
    layer: int | None = None
