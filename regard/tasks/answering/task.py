"""Answering: a question and a text in, the span of the text that answers it out, or that none does."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.batch import by_length, put_back, read_together
from regard.data.batching.windows import FRAME, Lengths, Windows
from regard.data.config import DataConfig
from regard.data.files.questions import NO_ANSWER, AskedQuestions, Question, question_parts
from regard.data.files.recognizing import questions
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.answers import Best, best_threshold, figures
from regard.evaluation.measured import Metric
from regard.models.interface import AnyReader
from regard.models.spans import SpanFinder, Spans
from regard.tasks.answering.batches import QuestionSet, SpanBatch, shared_rows
from regard.tasks.answering.sizing import draft
from regard.tasks.answering.verbs import Answered, AnswerQuestions
from regard.tasks.setup import Sample, Setup, TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.text.unicode import well_formed

SHOWN_CHARACTERS = 200  # of an answer


@dataclass(frozen=True, kw_only=True)
class AnsweringConfig(TaskConfig):
    stride: int = 128  # a text too long for one window is read in several, each beginning this many tokens later
    max_question: int = 64  # the most tokens of a question that are read, the last ones
    max_answer: int = 30  # the most tokens of an answer
    threshold: float = 0.0  # log-odds of the best answer against "cannot answer" above which it is given
    history: int = 0  # earlier questions of the same dialogue that are read before the current one
    dropout: float = 0.1  # on the rows from which answers are read
    shown: int = 3  # fixed validation samples printed at each validation
    # the validation figure that chooses the best checkpoint: `f1`, `best_f1` (at the best threshold), `exact`, `loss`
    metric: str = "f1"

    def __post_init__(self) -> None:
        at_least(self, 1, "stride", "max_question", "max_answer")
        not_negative(self, "history")
        share(self, "dropout")
        one_of(self, ("f1", "best_f1", "exact", "loss"), "metric")

    def lengths(self, max_length: int) -> Lengths:
        """Of windows of `max_length` tokens and what is in them."""
        room = max_length - FRAME - self.max_question
        if self.stride > room:
            raise ConfigError(
                f"data.max_length = {max_length} leaves {max(room, 0)} tokens for the context after a question of "
                f"max_question = {self.max_question}, fewer than stride = {self.stride}: some would never be read; "
                "raise the first or lower the others"
            )
        return Lengths(window=max_length, stride=self.stride, question=self.max_question)

    def build(self, reader: AnyReader) -> SpanFinder:
        return SpanFinder(reader, self.dropout)


class Answering(Task[AskedQuestions, QuestionSet, SpanFinder, SpanBatch]):
    """Questions about one context never fall on both sides of a share held out."""

    settings = AnsweringConfig
    cut_once = "a text with the places of answers"
    reads_marks = True  # "question [SEP] context"
    purpose = "was trained to find the answers to questions in a text"
    commands = ('regard answer RUN --context TEXT "QUESTION"', "regard evaluate RUN")
    config: AnsweringConfig
    recognize = staticmethod(questions)
    draft = staticmethod(draft)

    def __init__(self, config: AnsweringConfig, setup: Setup):
        super().__init__(config, setup)
        self.lengths = config.lengths(self.max_length)

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[AskedQuestions]:
        return question_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """The questions, and every context once."""
        questions = cls.read_parts(cls.settings(), data).train.all
        return [*dict.fromkeys(question.context for question in questions), *(question.text for question in questions)]

    def part(self, raw: AskedQuestions, to_learn: bool) -> QuestionSet:
        return QuestionSet(raw, self.windows(raw.all), self.config.max_answer if to_learn else None)

    def windows(self, questions: Sequence[Question]) -> Windows:
        return Windows(questions, self.tokenizer, self.lengths, self.config.history)

    # Batches and loss.

    def collate(self, part: QuestionSet, chosen: np.ndarray, epoch: int | None = None) -> SpanBatch:
        return part.batch(chosen)

    def small_batch(self, n_tokens: int) -> SpanBatch:
        """A few windows, of which one holds an answer, if any does: otherwise there is nothing to learn."""
        few = self.packing(self.train, min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        with_answer = np.flatnonzero(self.train.spans[self.train.kept, 1])
        return self.train.batch(few if np.isin(few, with_answer).any() else np.append(few, with_answer[:1]))

    def nats(self, model: SpanFinder, batch: SpanBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.layout, batch.spans)

    # Validation and measuring.

    def figures(self, model: SpanFinder, part: QuestionSet) -> dict[str, float]:
        """Nats for each end of a window's answer; F1 and exact match in percent, and the threshold with the best F1."""
        loss = self.mean_loss(model, part, by_length(part.lengths, self.batch_tokens))
        (f1, exact, *_), best = self.judge(model, part)
        values = {"loss": loss, "f1": f1.value, "exact": exact.value}
        return {**values, "best_f1": best.f1, "best_threshold": best.threshold}

    def metrics(self, use: Use[SpanFinder], part: QuestionSet) -> list[Metric]:
        """Where every question has an answer, one is always given, as SQuAD 1.1 asks it."""
        return self.judge(use.model, part)[0]

    def judge(self, model: SpanFinder, part: QuestionSet) -> tuple[list[Metric], Best]:
        """The figures of the best answers, each given where its odds allow it; and what they could be."""
        answers, c = self.best_answers(model, part.windows, always=True), self.config
        texts, odds = [best.text for best in answers], [best.odds for best in answers]
        references, always = part.questions.references, part.questions.all_answerable
        best = best_threshold(texts, odds, references)
        given = [text if always or value > c.threshold else "" for text, value in zip(texts, odds, strict=True)]
        rule = "never" if always else f"below log-odds {c.threshold:g}"
        metrics = figures(given, references, f"cannot answer:{rule}|history:{c.history}")
        if not always:
            signature = f"threshold:{best.threshold:.3f}|chosen on this very test"
            metrics.append(Metric(name="F1 at the best threshold", value=best.f1, signature=signature))
        return metrics, best

    def best_answers(self, model: SpanFinder, windows: Windows, always: bool) -> list[Answered]:
        """With `always`, also where "no answer" is the likeliest."""
        return choose_answers(windows, self.find(model, windows), -math.inf if always else self.config.threshold)

    @torch.no_grad()
    def find(self, model: SpanFinder, windows: Windows) -> Spans:
        """The best span of every window."""
        documents = [windows.tokens(i) for i in range(len(windows))]
        groups, spans = [], []
        for group, tokens, layout in read_together(documents, self.batch_tokens, model.device):
            offset, n_context = (
                torch.from_numpy(part[group]).to(model.device) for part in (windows.offset, windows.n_context)
            )
            groups.append(group)
            spans.append(model.find(tokens, layout, offset, n_context, self.config.max_answer))
        return Spans(*(put_back([part.cpu() for part in column], groups) for column in zip(*spans, strict=True)))

    def first_samples(self, model: SpanFinder, valid: QuestionSet) -> list[Sample]:
        few, always = valid.questions.all[: self.config.shown], valid.questions.all_answerable
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

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"answer": self.answer, **super().verbs}

    def answer(self, use: Use[SpanFinder], ask: AnswerQuestions) -> list[Answered]:
        questions = [  # without known answers
            Question(well_formed(question), well_formed(context), (NO_ANSWER,), "")
            for question, context in zip(ask.questions, ask.contexts, strict=True)
        ]
        return self.best_answers(use.model, self.windows(questions), ask.always) if questions else []


def choose_answers(windows: Windows, spans: Spans, threshold: float) -> list[Answered]:
    """One answer for each question, in order: of all its windows the one that speaks most for an answer decides, and
    one is given where its log-odds are above the threshold.

    Spans of different windows are compared by their odds against "no answer": a window's logits are known up to a
    constant of its own only, and every window was taught when to say that.  (Devlin et al. compare the logits.)
    """
    odds = spans.odds.numpy()
    order = np.lexsort((-odds, windows.owner))  # of each question the best window first
    best = order[np.searchsorted(windows.owner[order], np.arange(len(windows.questions)))]
    n_windows = np.bincount(windows.owner, minlength=len(windows.questions))
    answers = []
    for i, (question, window) in enumerate(zip(windows.questions, best, strict=True)):
        texts = {"empty question": question.text, "empty context": question.context}
        notes = [note for note, text in texts.items() if not text.strip()]
        notes += [f"read in {n_windows[i]} windows"] if n_windows[i] > 1 else []
        if odds[window] == -np.inf or not odds[window] > threshold:
            answers.append(Answered("", float(spans.none[window]), None, float(odds[window]), notes))
            continue
        rows = (int(row[window]) - windows.offset[window] + windows.first[window] for row in (spans.first, spans.last))
        start, end = windows.context[i].characters(question.context, *rows)
        text, probability = question.context[start:end], float(spans.probability[window])
        answers.append(Answered(text, probability, (start, end), float(odds[window]), notes))
    return answers


def shown(text: str) -> str:
    return text[:SHOWN_CHARACTERS] or "(cannot answer)"
