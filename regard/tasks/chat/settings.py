"""The [task] tables of conversations."""

from dataclasses import dataclass

from regard.checks import at_least, not_negative, one_of, positive, share
from regard.tasks.settings import TaskConfig


@dataclass(frozen=True, kw_only=True)
class TalkConfig(TaskConfig):
    """What every task on conversations may set."""

    shown: int = 2  # answers written at each validation
    sample_length: int = 60  # the most tokens of each, there and in `regard evaluate`

    def __post_init__(self) -> None:
        not_negative(self, "shown")
        at_least(self, 1, "sample_length")


@dataclass(frozen=True, kw_only=True)
class ChatConfig(TalkConfig):
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig(TalkConfig):
    beta: float = 0.1  # how dear it is to leave the model that training began with

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "beta")
        one_of(self, ("loss", "accuracy"), "metric")
