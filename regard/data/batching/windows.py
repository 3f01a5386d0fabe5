"""Questions before windows of their context: a context that is too long for one is read in several that overlap."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.files.questions import Answer, Question
from regard.data.notes import Notes
from regard.text.tokenizer import Tokenizer

FRAME = 3  # <s> question </s> context </s>


@dataclass(frozen=True)
class Lengths:
    """In tokens.  The next window of a context begins `stride` tokens after the one before."""

    window: int
    stride: int
    question: int  # of a longer one, with what was asked before it, the last so many are read


@dataclass(frozen=True)
class Placed:
    """The tokens of a text, and the characters [starts, ends) that each stands for."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_of(self, answer: Answer) -> tuple[int, int]:
        """The first and the last token that hold a character of the answer."""
        first = int(np.searchsorted(self.ends, answer.start, side="right"))
        last = int(np.searchsorted(self.starts, answer.start + len(answer.text), side="left")) - 1
        return first, last

    def characters(self, text: str, first: int, last: int) -> tuple[int, int]:
        """Of the text, where these tokens begin and end; the white space around them is not meant."""
        start, end = int(self.starts[first]), int(self.ends[last])
        start += len(text[start:end]) - len(text[start:end].lstrip())
        return start, start + len(text[start:end].rstrip())


class Windows:
    """Window i belongs to question `owner[i]` and holds `n_context[i]` tokens of its context from `first[i]` on."""

    def __init__(self, questions: Sequence[Question], tokenizer: Tokenizer, lengths: Lengths, history: int):
        self.questions, self.tokenizer = questions, tokenizer
        contexts = {context: i for i, context in enumerate(dict.fromkeys(q.context for q in questions))}
        self.placed = placed(list(contexts), tokenizer)
        self.context = [self.placed[contexts[question.context]] for question in questions]
        asked = tokenizer.encode_batch([with_history(question, history) for question in questions])
        self.asked = [np.array(ids[-lengths.question :], np.int64) for ids in asked]
        self.notes = Notes()
        owners, firsts, sizes = [], [], []
        for i, (question, ids) in enumerate(zip(questions, asked, strict=True)):
            if len(ids) > lengths.question:
                self.notes.add(f"question read by its last {lengths.question} tokens", question.place)
            room, n = lengths.window - FRAME - len(self.asked[i]), len(self.context[i].ids)
            starts = list(range(0, max(n - room, 0) + lengths.stride, lengths.stride))
            if len(starts) > 1:
                self.notes.add(f"context read in windows of {lengths.window} tokens", question.place)
            owners += [i] * len(starts)
            firsts += starts
            sizes += [min(room, n - start) for start in starts]
        self.owner, self.first, self.n_context = (np.array(part, np.int64) for part in (owners, firsts, sizes))

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def offset(self) -> np.ndarray:
        """The row of each window's first token of context."""
        return np.array([len(ids) for ids in self.asked], np.int64)[self.owner] + FRAME - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        return self.offset + self.n_context + 1

    def tokens(self, i: int) -> np.ndarray:
        """<s> question </s> window </s>"""
        start, end = [self.tokenizer.start_id], [self.tokenizer.end_id]
        first, question = self.first[i], self.owner[i]
        window = self.context[question].ids[first : first + self.n_context[i]]
        return np.concatenate([start, self.asked[question], end, window, end]).astype(np.int64)

    def spans(self) -> np.ndarray:
        """(windows, 2): the rows at which the first of each question's answers begins and ends; 0 and 0, which is <s>,
        where the window does not hold all of it."""
        rows = np.zeros((len(self), 2), np.int64)
        for i, question in enumerate(self.owner):
            answer = self.questions[question].answers[0]
            if not answer.is_found:
                continue
            first, last = self.context[question].span_of(answer)
            if self.first[i] <= first <= last < self.first[i] + self.n_context[i]:
                rows[i] = np.array([first, last]) - self.first[i] + self.offset[i]
        return rows


def placed(texts: list[str], tokenizer: Tokenizer) -> list[Placed]:
    found = []
    for ids, places in tokenizer.encode_places(texts):
        bounds = np.array(places, np.int64).reshape(-1, 2)
        found.append(Placed(np.array(ids, np.int64), bounds[:, 0].copy(), bounds[:, 1].copy()))
    return found


def with_history(question: Question, history: int) -> str:
    """The last `history` questions of the dialogue, and the one that is asked."""
    earlier = question.earlier[-history:] if history else ()
    return " ".join([*earlier, question.text])


def fit_to_learn(windows: Windows, spans: np.ndarray, max_answer: int) -> tuple[np.ndarray, Notes]:
    """Which windows are learned from: all those of a question, unless nothing could be learned from its answer."""
    notes = Notes()
    reached = np.bincount(windows.owner, weights=spans[:, 1] > 0, minlength=len(windows.questions)) > 0
    fit = np.ones(len(windows.questions), bool)
    for i, question in enumerate(windows.questions):
        answer = question.answers[0]
        reason = unfit(question, is_reached=bool(reached[i]))
        if reason:
            fit[i] = False
            notes.add(f"dropped: {reason}", question.place)
        elif answer.is_found:
            context = windows.context[i]
            first, last = context.span_of(answer)
            start, end = context.characters(question.context, first, last)
            if question.context[start:end] != answer.text:
                notes.add("answer begins or ends inside a token: the whole token is learned", question.place)
            if last - first >= max_answer:
                notes.add(f"answer longer than the {max_answer} tokens that are ever answered", question.place)
    return np.flatnonzero(fit[windows.owner]), notes


def unfit(question: Question, is_reached: bool) -> str:
    """Why nothing can be learned from a question; "" if something can."""
    answer = question.answers[0]
    if not question.text.strip():
        return "empty question"
    if not question.context.strip():
        return "empty context"
    if answer.text and not answer.is_found:
        return "its answer does not stand in its context"
    if answer.is_found and not is_reached:
        return "no window holds the whole answer"
    return ""
