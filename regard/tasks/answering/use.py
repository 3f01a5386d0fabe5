"""Answering at work: a question and a text in, the span of the text that answers out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.batching.grouping import by_length, put_back
from regard.data.batching.windows import Lengths, Windows
from regard.data.files.questions import NO_ANSWER, Question
from regard.models.spans import Spans
from regard.tasks.classification.batches import flat
from regard.text.tokenizer import Tokenizer
from regard.text.unicode import well_formed


@dataclass(frozen=True)
class Answered:
    """What answers a question; `text` is "" and `place` None where the context does not tell."""

    text: str
    probability: float  # among all answers that the same window could give, none included
    place: tuple[int, int] | None  # characters of the context, from the first to behind the last
    odds: float  # log P(best answer) - log P(no answer), whichever was given; -inf where the context is empty
    notes: list[str] = field(default_factory=list)  # "empty context", "read in 3 windows"


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How questions are read and answers chosen."""

    lengths: Lengths
    history: int  # questions of the same dialogue that are read before the one asked
    max_answer: int  # tokens
    threshold: float  # log-odds against "no answer" above which an answer is given


def answer(
    model: Any, tokenizer: Tokenizer, questions: Sequence[Question], manner: Manner, batch_tokens: int, always: bool
) -> list[Answered]:
    """One answer for each question, in order; with `always`, also where "no answer" is the likeliest."""
    if not questions:
        return []
    windows = Windows(questions, tokenizer, manner.lengths, manner.history)
    return choose_answers(windows, find(model, windows, manner.max_answer, batch_tokens), manner, always)


def asked(question: str, context: str) -> Question:
    """A question whose answer nobody knows yet."""
    return Question(well_formed(question), well_formed(context), (NO_ANSWER,), "")


@torch.no_grad()
def find(model: Any, windows: Windows, max_answer: int, batch_tokens: int) -> Spans:
    """The best span of every window."""
    device = next(model.parameters()).device
    groups, found = by_length(windows.lengths, batch_tokens), []
    for group in groups:
        tokens, layout = flat([windows.tokens(i) for i in group])
        offset, n_context = (torch.from_numpy(part[group]).to(device) for part in (windows.offset, windows.n_context))
        found.append(model.find(tokens.to(device), layout.to(device), offset, n_context, max_answer))
    return Spans(*(put_back([part.cpu() for part in column], groups) for column in zip(*found, strict=True)))


def choose_answers(windows: Windows, spans: Spans, manner: Manner, always: bool) -> list[Answered]:
    """Of all windows of a question the one that speaks most for an answer decides.

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
        if odds[window] == -np.inf or not (always or odds[window] > manner.threshold):
            answers.append(Answered("", float(spans.none[window]), None, float(odds[window]), notes))
            continue
        rows = (int(row[window]) - windows.offset[window] + windows.first[window] for row in (spans.first, spans.last))
        start, end = windows.context[i].characters(question.context, *rows)
        text, probability = question.context[start:end], float(spans.probability[window])
        answers.append(Answered(text, probability, (start, end), float(odds[window]), notes))
    return answers
