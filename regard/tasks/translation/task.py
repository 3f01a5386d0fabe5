"""Translation: pairs of lines in, the target's tokens out.  Any pair of texts will do: questions and answers, say."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.shards import tokenise
from regard.data.config import DataConfig
from regard.data.files.reading import read_examples
from regard.data.report import Part, Row, report
from regard.decoding.config import DecodingConfig
from regard.decoding.graphs import fastest
from regard.errors import ConfigError
from regard.evaluation.rouge import rouge
from regard.evaluation.translation import bleu
from regard.models.translator import Translator
from regard.nn.loss import cross_entropy
from regard.tasks.classification.batches import UNLIMITED
from regard.tasks.forgetful import Forgetful
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import Frame, PairBatch, PairData, PairSet
from regard.tasks.translation.use import translate
from regard.text.tokenizer import Tokenizer

# What is also measured of the outputs of a validation.
MEASURES: dict[str, Callable[[list[str], list[str]], float]] = {
    "bleu": lambda outputs, references: bleu(outputs, references, resamples=0).value,
    "rouge": lambda outputs, references: rouge(outputs, references)[-1].value,  # ROUGE-L
}
METRICS = ("loss", *MEASURES)
LONG = ("split", "cut")
SHOWN = 300  # characters of a source that a validation shows


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """What every task on pairs of texts may set."""

    source: str = "source"  # names of the two languages, for people
    target: str = "target"
    smoothing: float = 0.1  # label smoothing (section 5.4 of the paper)
    validation_lines: int = 500  # how many validation pairs are also translated, for BLEU or ROUGE; 0: none
    shown: int = 3  # fixed samples shown at each validation
    long: str = "split"  # of a source longer than data.max_length: split (in training: dropped), or cut
    metric: str = "loss"  # which validated figure chooses the best checkpoint: loss, bleu or rouge

    def __post_init__(self) -> None:
        one_of(self, METRICS, "metric")
        one_of(self, LONG, "long")
        not_negative(self, "validation_lines", "shown")
        share(self, "smoothing")
        if self.metric != "loss" and self.validation_lines < 1:
            raise ConfigError(f"metric = {self.metric!r} needs validation_lines above 0")

    @property
    def measured(self) -> str:
        """Which measure a validation takes of the outputs."""
        return self.metric if self.metric in MEASURES else "bleu"


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(PairsConfig):
    source_start: int = -1  # a token that every source begins with (BART's has one); -1: none
    target_start: int = -1  # the token that every target begins with; -1: the tokenizer's start

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, -1, "source_start", "target_start")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        before = () if self.source_start < 0 else (self.source_start,)
        start = tokenizer.start_id if self.target_start < 0 else self.target_start
        return Frame(start, tokenizer.end_id, before, cut=self.long == "cut")

    @staticmethod
    def room(longest_source: int, max_length: int) -> int:
        """Tokens of an answer that a model of `max_length` positions has room for: a decoder has its own."""
        return max_length


class Translation(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles: tuple[str, ...] = ("translator",)
    weigh: Callable[..., np.ndarray] = np.maximum  # what a batch counts of the lengths of source and target

    def __init__(self, config: Any, data: PairData, decoding: DecodingConfig):
        self.config, self.tokenizer, self.dropout = config, data.tokenizer, data.dropout
        self.train, self.valid, self.frame = data.train, data.valid, data.frame
        self.max_length, self.batch_tokens = data.config.max_length, data.config.batch_tokens
        self.packing = self.train.packing(data.config.batch_tokens, data.config.order, data.seed, self.weigh)
        self.quickly = replace(decoding, beam=1, n_best=1, sample=False)  # validation is greedy
        self.metric = config.metric
        self.higher_is_better = config.metric != "loss"
        if self.valid is None and config.metric != "loss":
            raise ConfigError(f"metric = {config.metric!r} needs validation files: set data.valid")

    @classmethod
    def make(cls, config: Any, setup: Setup) -> Self:
        frame = config.frame(setup.tokenizer)
        data = PairData(setup.data, setup.tokenizer, setup.dropout, setup.cache, setup.seed, frame)
        return cls(config, data, setup.decoding)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from: both sides."""
        examples = read_examples(data.train, data.columns, data.root)
        return (line for column in examples.columns for line in column)

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> Any:
        return self.made_of(self.train, self.packing.epoch(epoch)[index], self.dropout, draw=epoch)

    def small_batch(self, n_tokens: int) -> Any:
        """A few pairs of the training data, for a quick look at how they are learnt."""
        few = self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0, weigh=self.weigh).epoch(0)[0]
        return self.made_of(self.train, few)

    def made_of(self, pairs: PairSet, indices: np.ndarray, dropout: float = 0.0, draw: int = 0) -> Any:
        return pairs.batch(indices, dropout, draw)

    def nats(self, model: Any, batch: Any, smoothing: float) -> Tensor:
        """-log P of all targets of a batch."""
        return pair_loss(model, batch, smoothing)

    def loss(self, model: Any, batch: Any) -> Tensor:
        return self.nats(model, batch, self.config.smoothing)

    def plain_loss(self, model: Any, batch: Any) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return self.nats(model, batch, smoothing=0.0)

    def validate(self, model: Any) -> dict[str, float]:
        """The loss in nats a token, without smoothing; BLEU or ROUGE-L of greedy outputs."""
        if self.valid is None:
            return {}
        values = {"loss": self.mean_loss(model, self.valid)}
        n = min(self.config.validation_lines, len(self.valid))
        if n:
            outputs = self.translate(model, self.valid.texts(0)[:n])
            values[self.config.measured] = MEASURES[self.config.measured](outputs, self.valid.texts(1)[:n])
        return values

    @torch.no_grad()
    def mean_loss(self, model: Any, pairs: PairSet) -> float:
        device = model.embedding.weight.device
        total, count = 0.0, 0
        for indices in pairs.packing(self.batch_tokens, "grouped", seed=0, weigh=self.weigh).epoch(0):
            batch = self.made_of(pairs, indices).to(device)
            total += float(self.plain_loss(model, batch))
            count += batch.n_targets
        return total / count

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        if self.valid is None:
            return []
        sources, references = (self.valid.texts(side)[: self.config.shown] for side in (0, 1))
        outputs = self.translate(model, sources)
        return list(zip(map(shortened, sources), references, outputs, strict=True))

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": Part(self.train.examples, self.train.sides)}
        if self.valid is not None:
            parts["valid"] = Part(self.valid.examples, self.valid.sides)
        if data.test:
            examples = read_examples(data.test, data.columns, data.root)
            parts["test"] = Part(examples, [tokenise(column, self.tokenizer) for column in examples.columns])
        if not self.frame.cut:
            return report(parts, self.tokenizer, data.max_length).rows()
        cut = [(what, n) for what, n in self.train.notes.counts.items() if what.startswith("cut")]
        rows = [Row("train", what, f"{n:,}", self.train.notes.first[what]) for what, n in cut]
        return report(parts, self.tokenizer, UNLIMITED).rows() + rows

    def rows(self) -> list[tuple[str, str]]:
        n_tokens = int(self.train.lengths[1][self.train.kept].sum())
        rows = [("training data", f"{len(self.train):,} pairs, {n_tokens:,} target tokens")]
        if self.valid is not None:
            rows.append(("validation data", f"{len(self.valid):,} pairs"))
        return rows + [
            ("decided", row) for split in (self.train, self.valid) if split is not None for row in split.notes.rows()
        ]

    def purpose(self) -> str:
        return f"learnt to turn {self.config.source} into {self.config.target}"

    @property
    def verb(self) -> str:
        return "summarize" if self.config.long == "cut" else "translate"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f"regard {self.verb} {folder} < lines.txt",
            f"regard evaluate {folder}",
            f'regard look {folder} "a sentence"',
        )

    def translate(self, model: Any, lines: list[str]) -> list[str]:
        quickly = self.quickly.within(self.config.room(self.max_length, model.config.max_length))
        generator = self.generator(model)
        translated = translate(generator, self.tokenizer, lines, quickly, self.max_length, self.frame)
        return [answer.text for answer in translated]

    @staticmethod
    def generator(model: Any) -> Any:
        """What a search steps."""
        return fastest(model, model.embedding.weight.device)


def shortened(text: str) -> str:
    """For the eye: one line, and no more than can be taken in."""
    line = " ".join(text.split("\n"))
    return line if len(line) <= SHOWN else line[:SHOWN] + " …"


def pair_loss(model: Translator, batch: PairBatch, smoothing: float) -> Tensor:
    """The summed cross-entropy of the labels, in nats."""
    hidden = model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return cross_entropy(hidden, model.output_table, batch.labels, smoothing, model.output_bias)
