"""Questions answered: a question and a text in, the span of the text that answers out."""

import numpy as np
import torch

from regard.data.batching.batch import put_back, read_together
from regard.data.batching.windows import Windows
from regard.models.spans import SpanFinder, Spans
from regard.tasks.answering.verbs import Answered


@torch.no_grad()
def find(model: SpanFinder, windows: Windows, max_answer: int, batch_tokens: int) -> Spans:
    """The best span of every window."""
    documents = [windows.tokens(i) for i in range(len(windows))]
    groups, spans = [], []
    for group, tokens, layout in read_together(documents, batch_tokens, model.device):
        offset, n_context = (
            torch.from_numpy(part[group]).to(model.device) for part in (windows.offset, windows.n_context)
        )
        groups.append(group)
        spans.append(model.find(tokens, layout, offset, n_context, max_answer))
    return Spans(*(put_back([part.cpu() for part in column], groups) for column in zip(*spans, strict=True)))


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
