"""Reading alone: a reader without a head, as it comes from another tool.  Its rows can be had, and others can begin
with its weights; there is nothing that it learns by itself."""

from dataclasses import dataclass
from typing import Never, NoReturn

from regard.checks import one_of
from regard.errors import ConfigError
from regard.models.heads import ReaderHead
from regard.models.interface import AnyReader
from regard.tasks.exchange import ROWS
from regard.tasks.setup import TaskConfig
from regard.tasks.task import Task

WAY_OUT = "train another task with its weights: regard train RECIPE --from RUN"


def refuse(*_: object, **__: object) -> NoReturn:
    raise ConfigError(f"a reader without a head has nothing to learn or to measure; {WAY_OUT}")


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(TaskConfig):
    """Nothing is learned, so there is nothing to set."""

    def __post_init__(self) -> None:
        one_of(self, ("loss",), "metric")

    def build(self, reader: AnyReader) -> ReaderHead:
        return ReaderHead(reader)


class Reading(Task[Never, Never, ReaderHead, Never]):
    """A task that is never trained: what a run needs to be loaded and embedded with."""

    settings = ReadingConfig
    exchange = ROWS
    reads_marks = True
    commands = ("regard embed RUN FILE",)
    purpose = "reads text and gives a row for each token"

    read_parts = texts = part = collate = nats = figures = inspect = refuse
