"""What can be asked about the vectors of texts: which of many texts are nearest to a query."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from regard.tasks.request import Help, Request, Texts


class NearText(NamedTuple):
    text: str
    cosine: float
    line: int  # its place in the corpus, counted from 1


@dataclass(frozen=True)
class SearchResult:
    query: str
    nearest: list[NearText]  # the nearest first


@dataclass(frozen=True)
class SearchTexts(Request[SearchResult]):
    """The texts of a corpus that are nearest to each query, by the cosine of their vectors, whatever the run's task."""

    name = "search"

    queries: Texts
    corpus: Sequence[str]
    n: Annotated[int, Help(text="how many texts for each query", least=1)] = 5
