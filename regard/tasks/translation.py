"""Translation: pairs of lines in, the target's tokens out.  Any pair of texts will do: questions and answers, say."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from regard.data.config import DataConfig
from regard.data.reading import read_examples
from regard.data.report import Part, Row, report
from regard.data.shards import tokenise
from regard.decoding.config import DecodingConfig
from regard.decoding.graphs import fastest
from regard.errors import ConfigError
from regard.evaluation.translation import bleu
from regard.models.translator import Translator
from regard.nn.loss import cross_entropy
from regard.tasks.pairs import Frame, PairBatch, PairData, PairSet
from regard.tasks.setup import Setup
from regard.tasks.translate import translate
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TranslationConfig:
    source: str = "source"  # names of the two languages, for people
    target: str = "target"
    smoothing: float = 0.1  # label smoothing (section 5.4 of the paper)
    validation_lines: int = 500  # how many validation pairs are also translated, for BLEU; 0: none
    shown: int = 3  # fixed samples shown at each validation
    source_start: int = -1  # a token that every source begins with (BART's has one); -1: none
    target_start: int = -1  # the token that every target begins with; -1: the tokenizer's start
    metric: str = "loss"  # which validated figure chooses the best checkpoint: loss or bleu

    def __post_init__(self) -> None:
        if self.metric not in ("loss", "bleu"):
            raise ConfigError(f"metric must be loss or bleu, got {self.metric!r}")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing is a share, from 0 up to, not including, 1; got {self.smoothing}")
        if self.metric == "bleu" and self.validation_lines < 1:
            raise ConfigError("metric = 'bleu' needs validation_lines above 0")
        if min(self.source_start, self.target_start) < -1:
            raise ConfigError(
                "source_start and target_start are ids of tokens, or -1 for none and for the tokenizer's; "
                f"got {self.source_start} and {self.target_start}"
            )

    def frame(self, tokenizer: Tokenizer) -> Frame:
        before = () if self.source_start < 0 else (self.source_start,)
        return Frame(tokenizer.start_id if self.target_start < 0 else self.target_start, tokenizer.end_id, before)


class Translation:
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("translator",)

    def __init__(self, config: TranslationConfig, data: PairData, decoding: DecodingConfig):
        self.config, self.tokenizer, self.dropout = config, data.tokenizer, data.dropout
        self.train, self.valid, self.frame = data.train, data.valid, data.frame
        self.max_length, self.batch_tokens = data.config.max_length, data.config.batch_tokens
        self.packing = self.train.packing(data.config.batch_tokens, data.config.order, data.seed)
        self.quickly = replace(decoding, beam=1, n_best=1, sample=False)  # validation is greedy
        self.metric = config.metric
        self.higher_is_better = config.metric == "bleu"
        if self.valid is None and config.metric == "bleu":
            raise ConfigError("metric = 'bleu' needs validation files: set data.valid")

    @classmethod
    def make(cls, config: TranslationConfig, setup: Setup) -> Self:
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

    def batch(self, epoch: int, index: int) -> PairBatch:
        return self.train.batch(self.packing.epoch(epoch)[index], self.dropout, draw=epoch)

    def small_batch(self, n_tokens: int) -> PairBatch:
        """A few pairs of the training data, for a quick look at how they are learnt."""
        few = self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        return self.train.batch(few)

    def loss(self, model: Translator, batch: PairBatch) -> Tensor:
        return pair_loss(model, batch, self.config.smoothing)

    def plain_loss(self, model: Translator, batch: PairBatch) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return pair_loss(model, batch, smoothing=0.0)

    def validate(self, model: Translator) -> dict[str, float]:
        """The loss in nats a token, without smoothing; BLEU of greedy translations."""
        if self.valid is None:
            return {}
        values = {"loss": mean_loss(model, self.valid, self.batch_tokens)}
        n = min(self.config.validation_lines, len(self.valid))
        if n:
            outputs = self.translate(model, self.valid.texts(0)[:n])
            values["bleu"] = bleu(outputs, self.valid.texts(1)[:n], resamples=0).value
        return values

    def samples(self, model: Translator) -> list[tuple[str, str, str]]:
        if self.valid is None:
            return []
        sources, references = (self.valid.texts(side)[: self.config.shown] for side in (0, 1))
        return list(zip(sources, references, self.translate(model, sources), strict=True))

    def tensors(self) -> dict[str, Tensor]:
        """Nothing is carried from batch to batch."""
        return {}

    def restore(self, tensors: dict[str, Tensor], model: Translator) -> None:
        pass

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": Part(self.train.examples, self.train.sides)}
        if self.valid is not None:
            parts["valid"] = Part(self.valid.examples, self.valid.sides)
        if data.test:
            examples = read_examples(data.test, data.columns, data.root)
            parts["test"] = Part(examples, [tokenise(column, self.tokenizer) for column in examples.columns])
        return report(parts, self.tokenizer, data.max_length).rows()

    def rows(self) -> list[tuple[str, str]]:
        rows = [
            ("training data", f"{len(self.train):,} pairs, {int(self.train.sides[1].lengths.sum()):,} target tokens")
        ]
        if self.valid is not None:
            rows.append(("validation data", f"{len(self.valid):,} pairs"))
        return rows + [
            ("decided", row) for split in (self.train, self.valid) if split is not None for row in split.notes.rows()
        ]

    def purpose(self) -> str:
        return f"learnt to turn {self.config.source} into {self.config.target}"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f"regard translate {folder} < lines.txt",
            f"regard evaluate {folder}",
            f'regard look {folder} "a sentence"',
        )

    def translate(self, model: Translator, lines: list[str]) -> list[str]:
        generator = fastest(model, model.embedding.weight.device)
        quickly = self.quickly.within(model.config.max_length)
        translated = translate(generator, self.tokenizer, lines, quickly, self.max_length, self.frame)
        return [answer.text for answer in translated]


def pair_loss(model: Translator, batch: PairBatch, smoothing: float) -> Tensor:
    """The summed cross-entropy of the labels, in nats."""
    hidden = model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return cross_entropy(hidden, model.output_table, batch.labels, smoothing, model.output_bias)


@torch.no_grad()
def mean_loss(model: Translator, pairs: PairSet, batch_tokens: int) -> float:
    device = model.embedding.weight.device
    total, count = 0.0, 0
    for indices in pairs.packing(batch_tokens, "grouped", seed=0).epoch(0):
        batch = pairs.batch(indices).to(device)
        total += float(pair_loss(model, batch, smoothing=0.0))
        count += batch.n_targets
    return total / count
