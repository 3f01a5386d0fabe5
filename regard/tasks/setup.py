"""What every task is made of and given: its settings, its setup, parts of its data, and a model that is used."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np

from regard.data.batching.batch import Batch
from regard.data.batching.computed_order import Everything, FitItems, PooledEpochs, in_pools
from regard.data.batching.packing import Packing
from regard.data.batching.shards import TokenShard, shard
from regard.data.config import DataConfig
from regard.data.files.on_disk import FileTexts
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
    of_run: ClassVar[tuple[str, ...]] = ()  # settings that come from the run that a recipe begins with, if it has them

    @property
    def window(self) -> int:
        """Tokens of a usual sequence, for which costs are given; about a sentence, where no setting says more."""
        return 30

    def refuse_teacher(self, theirs: Self) -> None:
        """Raise where a model with the settings `theirs` cannot teach one with these."""
        raise ConfigError("this task cannot be distilled; classification and masked words can")

    def refuse_r_drop(self) -> None:
        """Raise where two readings of a batch cannot be compared (training.r_drop)."""
        raise ConfigError("training.r_drop is for classification, masked words and translation")

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
    def carry(self) -> bool:
        """Whether texts go on from batch to batch."""
        return False

    @property
    def own_words(self) -> float:
        """The chance that a token, in training, is read as one that the model wrote."""
        return 0.0

    @property
    def drawn(self) -> tuple[str, ...]:
        """Figures that curves.png shows over the steps."""
        return ("loss",) if self.metric == "loss" else ("loss", self.metric)

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
    decoding: DecodingConfig = PLAIN  # of validations
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

    kept: np.ndarray
    lengths: np.ndarray  # what each of those counts in a batch

    def __init__(self, examples: Examples, setup: Setup):
        self.examples, self.setup = examples, setup
        columns = zip(examples.columns, self.tokenizers, strict=True)
        self.shards = [shard(column, tokenizer, setup.cache) for column, tokenizer in columns]
        self.kept = np.arange(len(examples))
        self.notes = Notes()
        self.notes.update(examples.notes)

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def tokenizers(self) -> list[Tokenizer]:
        """Of each column."""
        return [self.setup.tokenizer] * len(self.examples.columns)

    @cached_property
    def samplers(self) -> list[SampledTexts]:
        """What draws the tokens of each column, in training with BPE-dropout."""
        tokenizer, dropout = self.setup.tokenizer, self.setup.dropout
        return [SampledTexts(column, tokenizer.pairs, dropout) for column in self.examples.columns]

    def lines(self, indices: np.ndarray) -> list[str]:
        """Where the examples at these places of `kept` came from."""
        return [self.examples.where(i) for i in self.kept[indices]]

    def packing(self, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return Packing(self.lengths, budget, order, seed)


class LargeExampleSet(ExampleSet):
    """The same of examples that stay on disk, and their tokens with them.  What is unfit is left out when a batch is
    made: `measure` says of some examples which are fit, and what each counts."""

    def __init__(self, examples: Examples, setup: Setup):
        if setup.dropout:
            raise ConfigError(
                f"more lines than data.in_memory = {setup.data.in_memory:,} are cut into tokens once: set "
                "tokenizer.dropout = 0, or raise data.in_memory"
            )
        self.examples, self.setup = examples, setup
        self.shards = [self.tokenized(c) for c in range(len(examples.columns))]
        self.kept = cast(np.ndarray, Everything(len(examples)))  # it is only indexed
        self.notes = Notes()
        self.notes.update(examples.notes)

    def tokenized(self, c: int) -> TokenShard:
        """White space alone is no text."""
        texts, setup = self.examples.columns[c], self.setup
        written = FileTexts(lambda: (text if text.strip() else "" for text in texts), len(texts))
        digest = f"{self.examples.digest} column {c}" if self.examples.digest else ""
        processes = setup.data.n_processes
        return shard(written, self.tokenizers[c], setup.cache, processes=processes, digest=digest)

    def side_lengths(self, places: np.ndarray) -> list[np.ndarray]:
        """Tokens of each column."""
        return [tokens.offsets[places + 1] - tokens.offsets[places] for tokens in self.shards]

    def fit(self, sides: Sequence[np.ndarray], max_length: int) -> np.ndarray:
        """Which examples with so many tokens have no empty and no too long side."""
        return np.logical_and.reduce([(side > 0) & (side <= max_length) for side in sides])

    def count(self, max_length: int) -> tuple[int, list[int]]:
        """How many are fit, and their tokens in each column; what is dropped is noted, each for the first reason."""
        n_fit, n_tokens, names = 0, [0] * len(self.shards), self.examples.names
        for places in in_pools(len(self.examples)):
            sides = self.side_lengths(places)
            is_fit = self.fit(sides, max_length)
            n_fit += int(is_fit.sum())
            n_tokens = [n + int(side[is_fit].sum()) for n, side in zip(n_tokens, sides, strict=True)]
            nothing = np.logical_and.reduce([side == 0 for side in sides])
            reasons = [(nothing, "empty line" if len(sides) == 1 else "empty on every side", 0)]
            reasons += [(side == 0, f"{names[c]} is empty", c) for c, side in enumerate(sides)]
            reasons += [
                (side > max_length, f"{names[c]} is longer than {max_length} tokens", c) for c, side in enumerate(sides)
            ]
            rest = ~is_fit
            for bad, reason, c in reasons:
                if (bad & rest).any():
                    first = int(places[(bad & rest).argmax()])
                    self.notes.add(f"dropped: {reason}", self.examples.where(first, c), int((bad & rest).sum()))
                    rest = rest & ~bad
        return n_fit, n_tokens

    @abstractmethod
    def measure(self, places: np.ndarray) -> FitItems: ...

    @property
    def lengths(self) -> np.ndarray:  # type: ignore[override]
        """Of those that are fit; worked out anew each time."""
        return np.concatenate([self.measure(places)[1] for places in in_pools(len(self.kept))])

    def packing(self, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return PooledEpochs(len(self.kept), self.measure, budget, order, seed)


class Use(NamedTuple, Generic[M]):
    """A model that is used: what a task's verbs and measures are given."""

    model: M
    engine: Engine  # what searches: in the model, or in an ensemble
    decoding: DecodingConfig  # the recipe's, or as asked
    expected: Mapping[str, float] = MappingProxyType({})  # what outputs are like on the validation set, if known


Verbs = Mapping[str, Callable[[Use, Any], Any]]  # by name: what answers the request of the verb's own class
