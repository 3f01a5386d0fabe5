"""Questions as windows of tokens, and the batches made of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import SequenceBatch, flat
from regard.data.batching.windows import Windows, fit_to_learn
from regard.data.files.questions import AskedQuestions
from regard.data.files.splits import normalized
from regard.data.notes import Notes
from regard.data.report import Row, note_rows


@dataclass(frozen=True)
class SpanBatch(SequenceBatch):
    """Flat rows of windows, and for each the rows at which its answer begins and ends."""

    spans: Tensor  # B 2

    @property
    def n_targets(self) -> int:
        return self.spans.numel()


class QuestionSet:
    """One part of a data set.  What is only answered keeps every question; what is learned from, those that teach."""

    def __init__(self, questions: AskedQuestions, windows: Windows, max_answer: int | None):
        self.questions = questions
        self.windows, self.spans = windows, windows.spans()
        self.notes = Notes()
        self.notes.update(questions.notes)
        self.notes.update(windows.notes)
        self.kept = np.arange(len(windows))
        if max_answer is not None:
            self.kept, dropped = fit_to_learn(windows, self.spans, max_answer)
            self.notes.update(dropped)
        self.lengths = windows.lengths[self.kept]

    def batch(self, indices: np.ndarray) -> SpanBatch:
        """The windows at these places of `kept`."""
        places = self.kept[indices]
        lines = [self.questions.all[i].place for i in self.windows.owner[places]]
        tokens, layout = flat([self.windows.tokens(i) for i in places])
        return SpanBatch(lines, tokens, layout, torch.from_numpy(self.spans[places]))

    def describe(self) -> str:
        n_contexts = len({question.context for question in self.questions.all})
        return f"{len(self.questions):,} questions about {n_contexts:,} texts, in {len(self.kept):,} windows"

    def report(self, part: str) -> list[Row]:
        """For the doctor: how much there is, how long it is, and what was decided."""
        n, n_answered = len(self.questions), sum(any(texts) for texts in self.questions.references)
        n_held = int((self.spans[self.kept, 1] > 0).sum())
        lengths: dict[str, Iterable[int]] = {
            "context": [len(context.ids) for context in self.windows.placed],
            "question": [len(ids) for ids in self.windows.asked],
            "window": self.lengths,
        }
        return [
            Row(part, "questions, texts", f"{n:,}, {len(self.windows.placed):,}"),
            Row(part, "questions with an answer", f"{n_answered:,} ({n_answered / n:.1%})"),
            Row(part, "windows, those that hold the answer", f"{len(self.kept):,}, {n_held:,}"),
            *(Row(part, f"{name}: tokens, 50%/90%/longest", at(values)) for name, values in lengths.items()),
            *note_rows(part, self.notes),
        ]


def at(values: Iterable[int]) -> str:
    return "/".join(f"{int(n):,}" for n in np.percentile(list(values), (50, 90, 100), method="higher"))


def shared_rows(name: str, part: QuestionSet, train: QuestionSet) -> list[Row]:
    """How many questions of a part are about a text that training has too, and how many it has as they are."""
    wholes = {(normalized(q.text), normalized(q.context)) for q in train.questions.all}
    contexts = {context for _, context in wholes}
    same = [q.place for q in part.questions.all if normalized(q.context) in contexts]
    equal = [q.place for q in part.questions.all if (normalized(q.text), normalized(q.context)) in wholes]
    shared = {"about a text of training": same, "question and text also in training": equal}
    return [Row(name, what, f"{len(places):,}", places[0] if places else "") for what, places in shared.items()]
