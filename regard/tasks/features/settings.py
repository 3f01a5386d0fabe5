"""The [task] table of a reader without a head."""

from dataclasses import dataclass

from regard.checks import one_of
from regard.tasks.settings import TaskConfig


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig(TaskConfig):
    """Nothing is learned, so there is nothing to set."""

    def __post_init__(self) -> None:
        one_of(self, ("loss",), "metric")
