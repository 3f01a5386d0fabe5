"""What can be asked of every run whose model makes rows: a vector of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.tasks.verb import Verb


@dataclass(frozen=True)
class Embed(Verb[list[float]]):
    """One vector for each line, (lines, D): of the rows that the model reads from it, whatever its task."""

    name = "embed"  # the command can write a NumPy file

    lines: Sequence[str]
    pooling: str = "mean"
    layer: int | None = None
