"""Answers: a question and a text in, the span of the text that answers it out, or that none does."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.grouping import by_length
from regard.data.batching.packing import Packing
from regard.data.batching.windows import FRAME, Lengths
from regard.data.config import DataConfig
from regard.data.files.questions import Questions, read_questions
from regard.data.files.splits import with_shares
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.answers import Best, best_threshold, figures
from regard.evaluation.metric import Metric
from regard.models.spans import SpanFinder
from regard.tasks.answering.batches import QuestionSet, SpanBatch, shared_rows
from regard.tasks.answering.use import Answered, Manner, answer, choose_answers, find
from regard.tasks.forgetful import Forgetful
from regard.tasks.setup import Setup

METRICS = ("f1", "best_f1", "exact", "loss")
SHOWN_CHARACTERS = 200  # of an answer


@dataclass(frozen=True, kw_only=True)
class AnswersConfig:
    stride: int = 128  # a long context is read in windows that begin so many tokens behind each other
    max_question: int = 64  # tokens of a question that are read, the last ones
    max_answer: int = 30  # tokens of the longest answer that is given
    threshold: float = 0.0  # log-odds against "cannot answer" above which an answer is given
    history: int = 0  # earlier questions of the same dialogue that are read before the one asked
    dropout: float = 0.1  # on the rows from which answers are read
    shown: int = 3  # samples shown at each validation
    metric: str = "f1"  # best_f1: with the threshold that is best for the validation

    def __post_init__(self) -> None:
        at_least(self, 1, "stride", "max_question", "max_answer")
        not_negative(self, "history")
        share(self, "dropout")
        one_of(self, METRICS, "metric")

    def manner(self, max_length: int) -> Manner:
        """How questions are read in windows of `max_length` tokens."""
        room = max_length - FRAME - self.max_question
        if self.stride > room:
            raise ConfigError(
                f"data.max_length = {max_length} leaves {max(room, 0)} tokens for the context behind a question of "
                f"max_question = {self.max_question}, fewer than stride = {self.stride}: some would never be read; "
                "raise the first or lower the others"
            )
        lengths = Lengths(window=max_length, stride=self.stride, question=self.max_question)
        return Manner(
            lengths=lengths, history=self.history, max_answer=self.max_answer, threshold=self.threshold
        )  # fmt: skip


class QuestionParts(NamedTuple):
    train: Questions
    valid: Questions | None
    test: Questions | None


class Answers(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)

    def __init__(self, config: AnswersConfig, parts: QuestionParts, setup: Setup):
        setup.expect_one_cut("a text with the places of answers")
        self.config, self.manner = config, config.manner(setup.data.max_length)
        self.tokenizer, self.batch_tokens = setup.tokenizer, setup.data.batch_tokens
        self.train = QuestionSet(parts.train, setup.tokenizer, self.manner, to_learn=True)
        self.valid = None
        if parts.valid is not None:
            self.valid = QuestionSet(parts.valid, setup.tokenizer, self.manner, to_learn=False)
        self.packing = Packing(self.train.lengths, self.batch_tokens, setup.data.order, setup.seed)
        self.metric, self.higher_is_better = config.metric, config.metric != "loss"

    @classmethod
    def make(cls, config: AnswersConfig, setup: Setup) -> Self:
        return cls(config, cls.read(setup.data), setup)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from: the questions, and every context once."""
        questions = cls.read(data).train.all
        return [*dict.fromkeys(question.context for question in questions), *(question.text for question in questions)]

    @staticmethod
    def build(config: AnswersConfig, reader: Any) -> SpanFinder:
        return SpanFinder(reader, config.dropout)

    @staticmethod
    def read(data: DataConfig) -> QuestionParts:
        """Questions about one context never fall on both sides of a share held out."""
        if data.columns:
            raise ConfigError("questions are read by the names of their fields: leave data.columns empty")
        train, valid, test = (
            read_questions(files, data.root) if files else None for files in (data.train, data.valid, data.test)
        )
        assert train is not None
        return QuestionParts(*with_shares(train, valid, test, data))

    # Batches and loss.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> SpanBatch:
        return self.train.batch(self.packing.epoch(epoch)[index])

    def small_batch(self, n_tokens: int) -> SpanBatch:
        """A few windows, of which one holds an answer, if any does: otherwise there is nothing to learn."""
        few = Packing(self.train.lengths, min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        with_answer = np.flatnonzero(self.train.spans[self.train.kept, 1])
        return self.train.batch(few if np.isin(few, with_answer).any() else np.append(few, with_answer[:1]))

    def loss(self, model: Any, batch: SpanBatch) -> Tensor:
        nats: Tensor = model.nats(batch.tokens, batch.layout, batch.spans)
        return nats

    def plain_loss(self, model: Any, batch: SpanBatch) -> Tensor:
        return self.loss(model, batch)

    # Validation.

    @torch.no_grad()
    def validate(self, model: Any) -> dict[str, float]:
        """Nats for each end of a window's answer; F1 and exact match in percent, and the threshold with the best F1."""
        if self.valid is None:
            return {}
        device, nats, valid = next(model.parameters()).device, 0.0, self.valid
        for group in by_length(valid.lengths, self.batch_tokens):
            nats += float(self.loss(model, valid.batch(group).to(device)))
        spans = find(model, valid.windows, self.config.max_answer, self.batch_tokens)
        answers = choose_answers(valid.windows, spans, self.manner, always=True)
        (f1, exact, *_), best = measured(answers, valid.found, self.config)
        values = {"loss": nats / (2 * len(valid.windows)), "f1": f1.value, "exact": exact.value}
        return {**values, "best_f1": best.f1, "best_threshold": best.threshold}

    @classmethod
    def measure(
        cls, model: Any, config: AnswersConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """F1 and exact match on test files (default: the recipe's, or else its validation files).

        Where every question has an answer, one is always given, as SQuAD 1.1 asks it.
        """
        if files:
            what, found = ", ".join(files), read_questions(files, ".")
        else:
            parts = cls.read(setup.data)
            chosen = parts.test or parts.valid
            if chosen is None:
                raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
            what, found = "the test questions" if parts.test else "the validation questions", chosen
        manner = config.manner(setup.data.max_length)
        answers = answer(model, setup.tokenizer, found.all, manner, setup.data.batch_tokens, always=True)
        return what, measured(answers, found, config)[0]

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        if self.valid is None or not self.config.shown:
            return []
        few = self.valid.found.all[: self.config.shown]
        answers = answer(model, self.tokenizer, few, self.manner, self.batch_tokens, self.valid.found.all_answerable)
        pairs = zip(few, answers, strict=True)
        return [
            (question.text, shown(question.answers[0].text), shown(given.text)) for question, given in pairs
        ]  # fmt: skip

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": self.train, "valid": self.valid}
        test = self.read(data).test
        if test is not None:
            parts["test"] = QuestionSet(test, self.tokenizer, self.manner, to_learn=False)
        there = {name: part for name, part in parts.items() if part is not None}
        rows = [row for name, part in there.items() for row in part.report(name)]
        rows += [row for name, part in there.items() if name != "train" for row in shared_rows(name, part, self.train)]
        return sorted(rows, key=lambda row: list(there).index(row.part))

    def rows(self) -> list[tuple[str, str]]:
        parts = [("training data", self.train), ("validation data", self.valid)]
        there = [(name, part) for name, part in parts if part is not None]
        rows = [(name, part.describe()) for name, part in there]
        return rows + [(f"decided, {name}", row) for name, part in there for row in part.notes.rows()]

    def purpose(self) -> str:
        return "learnt to find the answers to questions in a text"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f'regard answer {folder} --context TEXT "QUESTION"', f"regard evaluate {folder}")


def measured(answers: list[Answered], found: Questions, config: AnswersConfig) -> tuple[list[Metric], Best]:
    """The figures of the best answers, each given where its odds allow it; and what they could be."""
    texts, odds, always = [best.text for best in answers], [best.odds for best in answers], found.all_answerable
    best = best_threshold(texts, odds, found.references)
    given = [text if always or value > config.threshold else "" for text, value in zip(texts, odds, strict=True)]
    said = "never" if always else f"below log-odds {config.threshold:g}"
    metrics = figures(given, found.references, f"cannot answer:{said}|history:{config.history}")
    if not always:
        signature = f"threshold:{best.threshold:.3f}|chosen on this very test"
        metrics.append(Metric(name="F1 at the best threshold", value=best.f1, signature=signature))
    return metrics, best


def shown(text: str) -> str:
    return text[:SHOWN_CHARACTERS] or "(cannot answer)"
