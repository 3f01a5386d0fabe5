"""Tagging (aligned seq2seq): words in, one tag for each of them out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import distinct, one_of, share
from regard.data.batching.grouping import by_length
from regard.data.batching.packing import Packing, cut
from regard.data.config import DataConfig
from regard.data.files.splits import with_shares
from regard.data.files.tagged import Tagged, read_tagged, tag_set
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.metric import Metric
from regard.evaluation.tagging import Unigrams, beside, figures
from regard.models.heads import Tagger
from regard.tasks.forgetful import Forgetful
from regard.tasks.setup import Setup
from regard.tasks.tagging.batches import TagBatch, TaggedSet
from regard.tasks.tagging.use import predict, word_logits

METRICS = ("f1", "accuracy", "loss")


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    framed: bool = False  # read <s> words </s>, as BERT does
    dropout: float = 0.1  # on the rows from which tags are read
    shown: int = 3  # fixed samples shown at each validation
    metric: str = "f1"  # which validated figure chooses the best checkpoint

    def __post_init__(self) -> None:
        one_of(self, METRICS, "metric")
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


class Tagging(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)

    def __init__(self, config: Any, train: Tagged, valid: Tagged | None, setup: Setup):
        setup.expect_one_cut("a word that gets a tag")
        self.config = self.settle(config, train)
        self.tokenizer, self.batch_tokens = setup.tokenizer, setup.data.batch_tokens
        splits = [
            None
            if found is None
            else TaggedSet(found, self.config.tags, setup.tokenizer, setup.data.max_length, config.framed)
            for found in (train, valid)
        ]
        assert splits[0] is not None
        self.train, self.valid = splits[0], splits[1]
        self.packing = Packing(self.train.pieces.lengths, self.batch_tokens, setup.data.order, setup.seed)
        self.metric, self.higher_is_better = config.metric, config.metric != "loss"

    @classmethod
    def make(cls, config: Any, setup: Setup) -> Self:
        train, valid, _ = cls.read(setup.data)
        return cls(config, train, valid, setup)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from: each word with the space before it."""
        return ("".join(f" {word}" for word in words) for words in cls.read(data)[0].words)

    @staticmethod
    def build(config: Any, reader: Any) -> Tagger:
        return Tagger(reader, max(len(config.tags), 1), config.dropout)

    # What differs between the two: where tags come from, and what they are good for.

    @staticmethod
    def read(data: DataConfig) -> tuple[Tagged, Tagged | None, Tagged | None]:
        """Training, validation and test sentences; equal sentences never fall on both sides."""
        train, valid, test = (
            read_tagged(files, data.columns, data.root) if files else None
            for files in (data.train, data.valid, data.test)
        )
        assert train is not None
        return with_shares(train, valid, test, data)

    @staticmethod
    def settle(config: Any, train: Tagged) -> Any:
        """The settings with the tags that there are."""
        return replace(config, tags=tag_set(train, config.tags))

    @staticmethod
    def words_of(line: str) -> list[str]:
        """What a line of input is tagged as."""
        return line.split()

    @staticmethod
    def write(words: list[str], tags: list[str]) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))

    # Batches and loss.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> TagBatch:
        return self.train.batch(self.packing.epoch(epoch)[index])

    def small_batch(self, n_tokens: int) -> TagBatch:
        lengths = self.train.pieces.lengths
        return self.train.batch(cut(np.arange(len(lengths)), lengths, n_tokens)[0])

    def loss(self, model: Any, batch: TagBatch) -> Tensor:
        logits = word_logits(model, batch.tokens, batch.layout, batch.last)
        return F.cross_entropy(logits.float(), batch.tags, reduction="sum")

    def plain_loss(self, model: Any, batch: TagBatch) -> Tensor:
        return self.loss(model, batch)

    # Validation.

    @torch.no_grad()
    def validate(self, model: Any) -> dict[str, float]:
        """Nats a word, and the shares in percent of `regard.evaluation.tagging`."""
        if self.valid is None:
            return {}
        device, nats = next(model.parameters()).device, 0.0
        for part in by_length(self.valid.pieces.lengths, self.batch_tokens):
            nats += float(self.loss(model, self.valid.batch(part).to(device)))
        accuracy, f1, *_ = self.measured(model, self.valid, self.config, self.batch_tokens)
        return {"loss": nats / len(self.valid.tags), "accuracy": accuracy.value, "f1": f1.value}

    @staticmethod
    def measured(model: Any, split: TaggedSet, config: Any, batch_tokens: int) -> list[Metric]:
        best, _ = predict(model, split.pieces, batch_tokens)
        true = list(chain.from_iterable(split.found.tags))
        return figures([config.tags[i] for i in best], true, config.tags, config.neutral)

    @classmethod
    def measure(cls, model: Any, config: Any, setup: Setup, files: tuple[str, ...]) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation files) beside the baseline's."""
        train, valid, test = cls.read(setup.data)
        if files:
            test = cls.read(replace(setup.data, root=".", train=files, valid=(), test=(), valid_share=0, test_share=0))[
                0
            ]
        found = test or valid
        if found is None:
            raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
        split = TaggedSet(found, config.tags, setup.tokenizer, setup.data.max_length, config.framed)
        ours = cls.measured(model, split, config, setup.data.batch_tokens)
        words, true = (list(chain.from_iterable(column)) for column in (found.words, found.tags))
        unigrams = Unigrams(*(list(chain.from_iterable(column)) for column in (train.words, train.tags)))
        theirs = figures(unigrams.predict(words), true, config.tags, config.neutral, who="unigram baseline: ")
        named = ", ".join(files) or ("the test sentences" if test else "the validation sentences")
        return named, beside(ours, theirs)

    @torch.no_grad()
    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        if self.valid is None or not self.config.shown:
            return []
        few = self.valid.found.select(range(min(self.config.shown, len(self.valid.found))))
        split = TaggedSet(few, self.config.tags, self.tokenizer, self.train.pieces.max_length, self.config.framed)
        best = iter(predict(model, split.pieces, self.batch_tokens)[0])
        predicted = [[self.config.tags[next(best)] for _ in words] for words in few.words]
        return [
            (" ".join(words), self.write(words, true), self.write(words, tags))
            for words, true, tags in zip(few.words, few.tags, predicted, strict=True)
        ]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        _, _, test = self.read(data)
        splits = {"train": self.train, "valid": self.valid}
        if test is not None:
            splits["test"] = TaggedSet(test, self.config.tags, self.tokenizer, data.max_length, self.config.framed)
        return [row for name, split in splits.items() if split is not None for row in split.report(name)]

    def rows(self) -> list[tuple[str, str]]:
        splits = [("training data", self.train), ("validation data", self.valid)]
        rows = [(name, split.describe()) for name, split in splits if split is not None]
        rows.append(("tags", f"{len(self.config.tags)}: {', '.join(self.config.tags)}"))
        return rows + [("decided", row) for _, split in splits if split is not None for row in split.notes.rows()]

    def purpose(self) -> str:
        return "learnt to tag the words of a sentence"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard tag {folder} < lines.txt", f"regard evaluate {folder}")
