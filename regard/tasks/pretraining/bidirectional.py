"""Language modelling in both directions: running text in, the next and the previous token of every place out."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.data.batching.streams import UNITS
from regard.errors import ConfigError
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
        if self.unit not in UNITS:
            raise ConfigError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}")
        if self.window < 1:
            raise ConfigError(f"window must be at least 1, got {self.window}")
        if self.metric != "loss":
            raise ConfigError(f"metric must be loss, got {self.metric!r}")


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
