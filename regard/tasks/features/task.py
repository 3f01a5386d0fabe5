"""Reading alone: a reader without a head, as it comes from another tool.  Its rows can be had, and others can begin
with its weights; there is nothing that it learns by itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from regard.data.config import DataConfig
from regard.errors import ConfigError
from regard.evaluation.metric import Metric
from regard.models.heads import Bare
from regard.tasks.setup import Setup

WAY_OUT = "train another task with its weights: regard train RECIPE --from RUN"


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig:
    """There is nothing to set."""


class Features:
    """A task that is never trained: what a run needs to be loaded and embedded with."""

    roles = ("reader",)

    @classmethod
    def make(cls, config: FeaturesConfig, setup: Setup) -> NoReturn:
        raise ConfigError(f"a reader without a head has nothing to learn; {WAY_OUT}")

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        raise ConfigError(f"a reader without a head has nothing to learn; {WAY_OUT}")

    @staticmethod
    def build(config: FeaturesConfig, reader: Any) -> Bare:
        return Bare(reader)

    @classmethod
    def measure(
        cls, model: Any, config: FeaturesConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        raise ConfigError(f"a reader without a head predicts nothing that could be measured; {WAY_OUT}")
