"""The [task] tables of tasks that give every word a tag."""

from dataclasses import dataclass
from typing import ClassVar

from regard.checks import distinct, one_of, share
from regard.data.batching.restoring import NEUTRAL, TAGS
from regard.errors import ConfigError
from regard.tasks.settings import TaskConfig


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(TaskConfig):
    """What every tagger may set."""

    framed: bool = False  # read <s> words </s>, as BERT does
    dropout: float = 0.1  # on the rows from which tags are read
    shown: int = 3  # fixed samples shown at each validation
    metric: str = "f1"  # which validated figure chooses the best checkpoint

    def __post_init__(self) -> None:
        one_of(self, ("f1", "accuracy", "loss"), "metric")
        share(self, "dropout")


@dataclass(frozen=True, kw_only=True)
class TaggingConfig(TaggerConfig):
    tags: tuple[str, ...] = ()  # empty: those of the training data
    neutral: str = ""  # the tag that says nothing, such as O: F1 is that of the others

    def __post_init__(self) -> None:
        super().__post_init__()
        distinct(self, "tags")
        if self.tags and self.neutral and self.neutral not in self.tags:
            raise ConfigError(f"neutral = {self.neutral!r} is not one of the tags: {', '.join(self.tags)}")


@dataclass(frozen=True, kw_only=True)
class RestorationConfig(TaggerConfig):
    """The tags are what text may need, whether or not the training text has them."""

    tags: ClassVar[tuple[str, ...]] = TAGS
    neutral: ClassVar[str] = NEUTRAL
