"""Answering: a question and a text in, the span of the text that answers it out, or that none does."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.batching.batch import by_length
from regard.data.batching.windows import Windows
from regard.data.config import DataConfig
from regard.data.files.questions import Question, Questions, question_parts
from regard.data.files.recognizing import questions
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.evaluation.answers import Best, best_threshold, figures
from regard.evaluation.metric import Metric
from regard.models.interface import Reader
from regard.models.spans import SpanFinder
from regard.tasks.answering.batches import QuestionSet, SpanBatch, shared_rows
from regard.tasks.answering.settings import AnswersConfig
from regard.tasks.answering.use import choose_answers, find, open_question
from regard.tasks.answering.verbs import Answer, Answered
from regard.tasks.learnable import Sample
from regard.tasks.setup import Setup
from regard.tasks.task import Task
from regard.tasks.use import Use

SHOWN_CHARACTERS = 200  # of an answer


class Answers(Task[Questions, QuestionSet, SpanFinder, SpanBatch]):
    """Questions about one context never fall on both sides of a share held out."""

    settings = AnswersConfig
    cut_once = "a text with the places of answers"
    commands = ('regard answer RUN --context TEXT "QUESTION"', "regard evaluate RUN")
    config: AnswersConfig

    recognize = staticmethod(questions)

    def __init__(self, config: AnswersConfig, setup: Setup):
        super().__init__(config, setup)
        self.lengths = config.lengths(self.max_length)

    @classmethod
    def read_parts(cls, config: AnswersConfig, data: DataConfig) -> Parts[Questions]:
        return question_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """The questions, and every context once."""
        questions = cls.read_parts(cls.settings(), data).train.all
        return [*dict.fromkeys(question.context for question in questions), *(question.text for question in questions)]

    def part(self, raw: Questions, to_learn: bool) -> QuestionSet:
        return QuestionSet(raw, self.windows(raw.all), self.config.max_answer if to_learn else None)

    def windows(self, questions: Sequence[Question]) -> Windows:
        return Windows(questions, self.tokenizer, self.lengths, self.config.history)

    def encode(self, text: str) -> list[int]:
        """ "question [SEP] context"."""
        return self.marked.encode(text)

    @classmethod
    def build(cls, config: AnswersConfig, model: Reader[Any]) -> SpanFinder:
        return SpanFinder(model, config.dropout)

    # Batches and loss.

    def collate(self, part: QuestionSet, chosen: np.ndarray, epoch: int | None = None) -> SpanBatch:
        return part.batch(chosen)

    def small_batch(self, n_tokens: int) -> SpanBatch:
        """A few windows, of which one holds an answer, if any does: otherwise there is nothing to learn."""
        few = self.packing(self.train, min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        with_answer = np.flatnonzero(self.train.spans[self.train.kept, 1])
        return self.train.batch(few if np.isin(few, with_answer).any() else np.append(few, with_answer[:1]))

    def loss(self, model: SpanFinder, batch: SpanBatch) -> Tensor:
        return model.nats(batch.tokens, batch.layout, batch.spans)

    # Validation and measuring.

    def figures(self, model: SpanFinder, part: QuestionSet) -> dict[str, float]:
        """Nats for each end of a window's answer; F1 and exact match in percent, and the threshold with the best F1."""
        loss = self.mean_loss(model, part, by_length(part.lengths, self.batch_tokens))
        (f1, exact, *_), best = self.judge(model, part)
        values = {"loss": loss, "f1": f1.value, "exact": exact.value}
        return {**values, "best_f1": best.f1, "best_threshold": best.threshold}

    def metrics(self, use: Use, part: QuestionSet) -> list[Metric]:
        """Where every question has an answer, one is always given, as SQuAD 1.1 asks it."""
        return self.judge(use.model, part)[0]

    def judge(self, model: SpanFinder, part: QuestionSet) -> tuple[list[Metric], Best]:
        return judge(self.best_answers(model, part.windows, always=True), part.questions, self.config)

    def best_answers(self, model: SpanFinder, windows: Windows, always: bool) -> list[Answered]:
        """With `always`, also where "no answer" is the likeliest."""
        spans = find(model, windows, self.config.max_answer, self.batch_tokens)
        return choose_answers(windows, spans, -math.inf if always else self.config.threshold)

    def samples(self, model: SpanFinder) -> list[Sample]:
        if self.valid is None or not self.config.shown:
            return []
        few, always = self.valid.questions.all[: self.config.shown], self.valid.questions.all_answerable
        answers = self.best_answers(model, self.windows(few), always)
        return [
            (question.text, shown(question.answers[0].text), shown(given.text))
            for question, given in zip(few, answers, strict=True)
        ]

    # For people.

    def inspect(self) -> list[Row]:
        return [
            row
            for name, part in self.parts().items()
            for row in part.report(name) + (shared_rows(name, part, self.train) if name != "train" else [])
        ]

    def purpose(self) -> str:
        return "was trained to find the answers to questions in a text"

    # Use.

    @property
    def verbs(self) -> Mapping[str, Callable[[Use, Any], Any]]:
        return {"answer": self.answer, **super().verbs}

    def answer(self, use: Use, ask: Answer) -> list[Answered]:
        questions = [
            open_question(question, context) for question, context in zip(ask.questions, ask.contexts, strict=True)
        ]
        return self.best_answers(use.model, self.windows(questions), ask.always) if questions else []


def judge(answers: list[Answered], questions: Questions, config: AnswersConfig) -> tuple[list[Metric], Best]:
    """The figures of the best answers, each given where its odds allow it; and what they could be."""
    texts, odds = [best.text for best in answers], [best.odds for best in answers]
    best, always = best_threshold(texts, odds, questions.references), questions.all_answerable
    given = [text if always or value > config.threshold else "" for text, value in zip(texts, odds, strict=True)]
    rule = "never" if always else f"below log-odds {config.threshold:g}"
    metrics = figures(given, questions.references, f"cannot answer:{rule}|history:{config.history}")
    if not always:
        signature = f"threshold:{best.threshold:.3f}|chosen on this very test"
        metrics.append(Metric(name="F1 at the best threshold", value=best.f1, signature=signature))
    return metrics, best


def shown(text: str) -> str:
    return text[:SHOWN_CHARACTERS] or "(cannot answer)"
