"""What every task is made of and given: its settings, its setup, parts of its data, and a model that is used."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from regard.data.batching.batch import Batch
from regard.data.batching.shards import TokenShard, shard
from regard.data.config import DataConfig
from regard.data.notes import Notes
from regard.decoding.config import DecodingConfig
from regard.decoding.interface import Generator
from regard.text.dropout import SampledTexts
from regard.text.tokenizer import Tokenizer

PLAIN = DecodingConfig()

Sample = tuple[str, str, str]  # source, reference, output

B = TypeVar("B", bound=Batch)


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """The [task] table of a recipe: what every task may set.  A property here is a setting of some tasks alone."""

    metric: str = "loss"  # which validated figure chooses the best checkpoint

    @property
    def window(self) -> int:
        """Tokens of a usual sequence, for which costs are given; about a sentence, where no setting says more."""
        return 30

    @property
    def smoothing(self) -> float:
        """Of the labels, in training."""
        return 0.0

    @property
    def shown(self) -> int:
        """Samples shown at each validation."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Setup:
    data: DataConfig
    tokenizer: Tokenizer
    dropout: float = 0.0  # the chance to leave out a merge (BPE-dropout)
    cache: Path | None = None  # folder of the token shards; None: they are not kept
    seed: int = 0
    decoding: DecodingConfig = PLAIN

    def samplers(self, columns: Sequence[Sequence[str]]) -> list[SampledTexts]:
        """What draws the tokens of columns of texts, in training with BPE-dropout."""
        return [SampledTexts(column, self.tokenizer.pairs, self.dropout) for column in columns]

    def tokens(self, texts: Sequence[str]) -> TokenShard:
        """The tokens of texts, cut once and kept in the cache."""
        return shard(texts, self.tokenizer, self.tokenizer.to_json(), self.cache)


class DataPart(Protocol):
    """The training, validation or test examples, as tokens."""

    @property
    def notes(self) -> Notes:
        """What was dropped or cut."""

    @property
    def lengths(self) -> np.ndarray:
        """What each example counts in a batch."""

    def describe(self) -> str: ...


class Use(NamedTuple):
    """A model that is used: what a task's verbs and measures are given."""

    model: Any  # as the task built it
    generator: Generator[Any]  # what a search steps: the model, the model with CUDA graphs, or an ensemble
    decoding: DecodingConfig  # the recipe's, or as asked
