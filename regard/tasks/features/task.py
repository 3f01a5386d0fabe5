"""Reading alone: a reader without a head, as it comes from another tool.  Its rows can be had, and others can begin
with its weights; there is nothing that it learns by itself."""

from typing import Any, NoReturn

from regard.errors import ConfigError
from regard.models.heads import Head
from regard.models.interface import Reader
from regard.tasks.exchange import ROWS
from regard.tasks.features.settings import FeaturesConfig
from regard.tasks.task import Task

WAY_OUT = "train another task with its weights: regard train RECIPE --from RUN"


def refuse(*_: object, **__: object) -> NoReturn:
    raise ConfigError(f"a reader without a head has nothing to learn or to measure; {WAY_OUT}")


class Features(Task[Any, Any, Head, Any]):
    """A task that is never trained: what a run needs to be loaded and embedded with."""

    settings = FeaturesConfig
    exchange = ROWS
    commands = ("regard embed RUN FILE",)
    config: FeaturesConfig

    read_parts = texts = part = collate = loss = figures = inspect = refuse

    def encode(self, text: str) -> list[int]:
        return self.marked.encode(text)

    @classmethod
    def build(cls, config: FeaturesConfig, model: Reader[Any]) -> Head:
        return Head(model)

    def purpose(self) -> str:
        return "reads text and gives a row for each token"
