"""Language modelling in both directions: running text in, the next and the previous token of every place out."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.checks import at_least, one_of
from regard.data.batching.streams import UNITS
from regard.tasks.language.task import Language


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig:
    unit: str = "stream"  # lines, stream or text
    window: int = 128  # tokens learnt from at once, of a stream or a text
    metric: str = "loss"

    # What `Language` also asks, and here is no choice.
    carry: ClassVar[bool] = False  # a backward net would need the state of the window behind its own
    context: ClassVar[int] = 0  # each end of a window is the beginning of a net
    blank: ClassVar[float] = 0.0
    smoothing: ClassVar[float] = 0.0
    shown: ClassVar[int] = 0  # a model that needs both sides of a place writes nothing

    def __post_init__(self) -> None:
        one_of(self, UNITS, "unit")
        at_least(self, 1, "window")
        one_of(self, ("loss",), "metric")


class Bidirectional(Language):
    """The text, the batches and the figures of `Language`, read from both ends: of z_0 .. z_n the forward net reads
    z_0 .. z_{n-1} and writes z_1 .. z_n, the backward net reads z_n .. z_1 and writes z_{n-1} .. z_0."""

    roles = ("bidirectional",)

    def purpose(self) -> str:
        return "learnt to foretell the next and the previous token of a text"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f"regard train sst2-elmo --from {folder}",
            f"regard embed {folder} FILE",
            f"regard evaluate {folder}",
        )
