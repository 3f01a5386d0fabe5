"""What every task is made of and given: its settings, its setup, parts of its data, and a model that is used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from regard.data.batching.batch import Batch
from regard.data.batching.shards import shard
from regard.data.config import DataConfig
from regard.data.files.reading import Examples
from regard.data.notes import Notes
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.models.interface import AnyReader, Model
from regard.nn.grid import GridForm
from regard.nn.series import SeriesForm
from regard.text.dropout import SampledTexts
from regard.text.tokenizer import Tokenizer

PLAIN = DecodingConfig()

Sample = tuple[str, str, str]  # source, reference, output

B = TypeVar("B", bound=Batch)
M = TypeVar("M", bound=Model)  # as a task builds it


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """The [task] table of a recipe: what every task may set.  A property here is a setting of some tasks alone."""

    metric: str = "loss"  # the validation figure that chooses the best checkpoint

    @property
    def window(self) -> int:
        """Tokens of a usual sequence, for which costs are given; about a sentence, where no setting says more."""
        return 30

    def refuse_teacher(self, theirs: Self) -> None:
        """Raise where a model with the settings `theirs` cannot teach one with these."""
        raise ConfigError("this task cannot be distilled; classification and masked words can")

    def build(self, reader: AnyReader) -> Model:
        """The reader with this task's head."""
        return reader

    def check_tokens(self, vocab_size: int) -> None:
        """Raise where a setting is the id of a token that the model does not have."""

    @property
    def is_endless(self) -> bool:
        """Whether what is written has no end of its own."""
        return False

    @property
    def n_labels(self) -> int:
        """Of a task that classifies; 0: there are none."""
        return 0

    @property
    def languages(self) -> tuple[str, str] | None:
        """Names of what is translated from and into; None: nothing is translated."""
        return None

    @property
    def judging_run(self) -> str:
        """The run whose model says, in training, how good an output is; "": none does."""
        return ""

    @property
    def series_widths(self) -> tuple[int, int, int, int]:
        """Of a task on series: how many columns are forecast, only seen, known ahead, and outputs for each column."""
        return 1, 0, 0, 1

    @property
    def blank(self) -> float:
        """The chance that a token, in training, is read as unknown."""
        return 0.0

    @property
    def smoothing(self) -> float:
        """Of the labels, in training."""
        return 0.0

    @property
    def shown(self) -> int:
        """Samples shown at each validation."""
        return 0

    @property
    def written(self) -> int:
        """Examples of a validation for which something is written, token by token."""
        return 0

    @property
    def sample_length(self) -> int:
        """Tokens of each that is written."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Setup:
    data: DataConfig
    tokenizer: Tokenizer
    dropout: float = 0.0  # the chance to leave out a merge (BPE-dropout)
    cache: Path | None = None  # folder of the token shards; None: they are not kept
    seed: int = 0
    n_shards: int = 1  # virtual ones, of which each reads a batch of its own in every step
    decoding: DecodingConfig = PLAIN
    grid: GridForm | None = None  # how the model reads images; None: it reads no images
    series: SeriesForm | None = None  # which windows of series it reads; None: it reads none


class DataPart(Protocol):
    """The training, validation or test examples, as tokens."""

    @property
    def notes(self) -> Notes:
        """What was dropped or cut."""

    @property
    def lengths(self) -> np.ndarray:
        """What each example counts in a batch."""

    def describe(self) -> str: ...


R = TypeVar("R")  # what is read from files
P = TypeVar("P", bound=DataPart)  # the same as tokens


class ExampleSet:
    """Columns of texts, cut into tokens once and kept in the cache; `kept` are the places of the examples in use."""

    def __init__(self, examples: Examples, setup: Setup):
        self.examples, self.setup = examples, setup
        self.shards = [shard(column, setup.tokenizer, setup.cache) for column in examples.columns]
        self.kept = np.arange(len(examples))
        self.notes = Notes()
        self.notes.update(examples.notes)

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def samplers(self) -> list[SampledTexts]:
        """What draws the tokens of each column, in training with BPE-dropout."""
        tokenizer, dropout = self.setup.tokenizer, self.setup.dropout
        return [SampledTexts(column, tokenizer.pairs, dropout) for column in self.examples.columns]

    def lines(self, indices: np.ndarray) -> list[str]:
        """Where the examples at these places of `kept` came from."""
        return [self.examples.where(i) for i in self.kept[indices]]


class Use(NamedTuple, Generic[M]):
    """A model that is used: what a task's verbs and measures are given."""

    model: M
    engine: Engine  # what searches: in the model, or in an ensemble
    decoding: DecodingConfig  # the recipe's, or as asked
    expected: Mapping[str, float] = MappingProxyType({})  # what outputs are like on the validation set, if known


Verbs = Mapping[str, Callable[[Use, Any], Any]]  # by name: what answers the request of the verb's own class
