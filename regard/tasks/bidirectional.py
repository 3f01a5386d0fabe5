"""Language modelling in both directions: running text in, the next and the previous token of every place out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from regard.data.streams import UNITS
from regard.errors import ConfigError
from regard.evaluation.metric import Metric
from regard.tasks.language import Language, LanguageConfig
from regard.tasks.setup import Setup


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig:
    unit: str = "stream"  # lines, stream or text
    window: int = 128  # tokens learnt from at once, of a stream or a text
    metric: str = "loss"

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

    @classmethod
    def make(cls, config: BidirectionalConfig, setup: Setup) -> Self:  # type: ignore[override]
        return super().make(as_language(config), setup)

    @classmethod
    def measure(  # type: ignore[override]
        cls, model: Any, config: BidirectionalConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        return super().measure(model, as_language(config), setup, files)

    def purpose(self) -> str:
        return "learnt to foretell the next and the previous token of a text"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f"regard train sst2-elmo --from {folder}",
            f"regard embed {folder} FILE",
            f"regard evaluate {folder}",
        )


def as_language(config: BidirectionalConfig) -> LanguageConfig:
    """Nothing is carried, because a backward net would need the state of the window behind; and nothing is written."""
    return LanguageConfig(unit=config.unit, window=config.window, carry=False, shown=0)
