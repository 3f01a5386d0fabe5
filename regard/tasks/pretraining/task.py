"""What every task with hidden words has: passages of plain documents, hidden by lot, as batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from regard.checks import at_least, one_of, proper_share
from regard.choose import choose
from regard.data.batching.documents import DOCUMENTS, Passages
from regard.data.batching.packing import Packing
from regard.data.batching.streams import PlainText, read_parts
from regard.data.config import DataConfig
from regard.data.report import Row
from regard.evaluation.metric import Metric
from regard.tasks.forgetful import Forgetful
from regard.tasks.language.task import evaluated_text, inspected, test_text
from regard.tasks.pretraining.batches import N_FIXED, HiddenBatch, Hider
from regard.tasks.setup import Setup

# How often the hidden words are drawn before they come again: BERT's data held ten copies of each text (section A.2),
# RoBERTa's texts are never hidden in the same way twice (Liu et al. 2019, section 4.1).
MASKS: dict[str, int | None] = {"static": 10, "dynamic": None}


@dataclass(frozen=True, kw_only=True)
class HiddenConfig:
    documents: str = "lines"  # what a document is: a line, or a block of lines up to an empty one
    window: int = 128  # the most tokens of a passage, <s> and </s> among them
    share: float = 0.15  # of the tokens that are hidden
    masks: str = "dynamic"  # drawn anew each epoch; static: ten draws, again and again
    metric: str = "loss"

    def __post_init__(self) -> None:
        choose(DOCUMENTS, self.documents, "kind of documents")
        choose(MASKS, self.masks, "kind of masks")
        at_least(self, N_FIXED[self.asks_next] + 2, "window")
        proper_share(self, "share")
        one_of(self, ("loss", "accuracy"), "metric")

    @property
    def asks_next(self) -> bool:
        """Whether passages have two parts, of which the second may not follow the first."""
        return False


class HiddenWords(Forgetful, ABC):
    """The part of the task that is the data's (`regard.training.task`)."""

    roles = ("reader",)

    def __init__(self, config: Any, train: Hider, valid: Hider | None, setup: Setup):
        setup.expect_one_cut("a text with hidden words")
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.seed, self.batch_tokens = setup.tokenizer, setup.seed, setup.data.batch_tokens
        self.packing = Packing(train.lengths, self.batch_tokens, setup.data.order, setup.seed)
        self.metric, self.higher_is_better = config.metric, config.metric == "accuracy"

    @classmethod
    def make(cls, config: Any, setup: Setup) -> Self:
        parts = read_parts(setup.data, "lines")
        train, valid = (None if text is None else hider(text, config, setup) for text in (parts.train, parts.valid))
        assert train is not None
        return cls(config, train, valid, setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return read_parts(data, "lines").train.lines

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> HiddenBatch:
        n_draws = MASKS[self.config.masks]
        draw = epoch if n_draws is None else epoch % n_draws
        return self.train.batch(self.packing.epoch(epoch)[index], self.seed, draw)

    def small_batch(self, n_tokens: int) -> HiddenBatch:
        return next(self.train.all_batches(n_tokens))

    def validate(self, model: Any) -> dict[str, float]:
        """With the same words hidden, and any other chance the same, each time."""
        return {} if self.valid is None else self.figures(model, self.valid, self.config, self.batch_tokens)

    @classmethod
    def measure(cls, model: Any, config: Any, setup: Setup, files: tuple[str, ...]) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation text), and what they are of."""
        what, text = evaluated_text(setup.data, "lines", files)
        found = hider(text, config, setup)
        values = cls.figures(model, found, config, setup.data.batch_tokens)
        how = signature(config, found)
        return what, [Metric(name=name, value=value, signature=how) for name, value in values.items()]

    @staticmethod
    @abstractmethod
    def figures(model: Any, found: Hider, config: Any, batch_tokens: int) -> dict[str, float]:
        """Of a whole text, every passage once."""

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        valid = None if self.valid is None else self.valid.corpus.text
        return inspected(self.train.corpus.text, valid, test_text(data, "lines"), self.tokenizer)

    def rows(self) -> list[tuple[str, str]]:
        rows = [("training text", describe(self.train.corpus))]
        if self.valid is not None:
            rows.append(("validation text", describe(self.valid.corpus)))
        return rows + [("decided", row) for row in self.train.corpus.notes.rows()]


def hider(text: PlainText, config: HiddenConfig, setup: Setup) -> Hider:
    width = config.window - N_FIXED[config.asks_next]
    corpus = Passages(text, config.documents, width, setup.tokenizer, setup.cache)
    return Hider(corpus, setup.tokenizer, config.share, config.asks_next)


def describe(corpus: Passages) -> str:
    return f"{len(corpus.ids):,} tokens in {len(corpus.places):,} documents, {len(corpus):,} passages"


def signature(config: HiddenConfig, found: Hider) -> str:
    """Of the figures of a text."""
    n = len(found.corpus)
    return f"documents:{config.documents}|window:{config.window}|share:{config.share:g}|passages:{n}"
