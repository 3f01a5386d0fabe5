"""The [task] tables of tasks that learn from running text."""

from dataclasses import dataclass

from regard.checks import at_least, not_negative, one_of, share, sorted_classes
from regard.data.batching.streams import UNITS
from regard.data.files.labelled import named
from regard.errors import ConfigError, RegardError
from regard.tasks.settings import TaskConfig


@dataclass(frozen=True, kw_only=True)
class StreamConfig(TaskConfig):
    """What every task on running text may set."""

    unit: str = "stream"  # lines, stream or text
    window: int = 256  # the most tokens learned from at once

    def __post_init__(self) -> None:
        one_of(self, UNITS, "unit")
        at_least(self, self.shortest_window, "window")
        one_of(self, ("loss",), "metric")

    @property
    def shortest_window(self) -> int:
        return 1

    @property
    def is_endless(self) -> bool:
        return self.unit == "text"


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(StreamConfig):
    context: int = 0  # tokens at the beginning of a validated window that are only read: the one before counted them
    blank: float = 0.0  # the chance that a token, in training, is read as <unk> (Xie et al. 2017)
    carry: bool = False  # go on from the state of the window before: truncated back-propagation through time
    smoothing: float = 0.0
    shown: int = 2  # samples written at each validation
    sample_length: int = 60  # tokens of each

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "sample_length")
        not_negative(self, "shown")
        share(self, "blank", "smoothing")
        if not 0 <= self.context < self.window or (self.context and (self.carry or self.unit == "lines")):
            raise ConfigError(
                f"context must be below window = {self.window}, and 0 for lines and where states are carried; "
                f"got {self.context}"
            )
        if self.carry and self.unit == "lines":
            raise ConfigError("lines are texts of their own: nothing is carried; set unit = 'stream' or carry = false")


@dataclass(frozen=True, kw_only=True)
class LabelToTextConfig(TaskConfig):
    labels: tuple[str, ...] = ()  # empty: those of the training data
    smoothing: float = 0.0
    shown: int = 1  # samples written at each validation, for each label
    sample_length: int = 60  # tokens of each

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")

    def id_of(self, label: str) -> int:
        if label not in self.labels:
            raise RegardError(f"there is no label {label!r}; the labels are: {named(self.labels)}")
        return self.labels.index(label)
