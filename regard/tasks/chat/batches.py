"""Conversations as batches of which only answers are learned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.batch import SequenceBatch, middle
from regard.data.batching.packing import cut
from regard.data.batching.template import template_of
from regard.data.files.conversations import ASSISTANT, Dialogues, Message
from regard.data.notes import Notes
from regard.errors import DataError
from regard.models.heads import LanguageModel
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.processes import spread
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class AnswerBatch(SequenceBatch):
    """Flat rows.  The model reads all tokens; after those at `places` it should write the labels."""

    places: Tensor  # M, rows
    labels: Tensor  # M
    owners: Tensor  # M, the sequence of each label

    @property
    def n_targets(self) -> int:
        return len(self.labels)

    def halves(self) -> list[Self]:
        return [self.between(*ends) for ends in middle(self.layout)]

    def between(self, first: int, last: int) -> Self:
        rows = self.layout.rows_of(first, last)
        is_in = (self.owners >= first) & (self.owners < last)
        return replace(
            self,
            lines=self.lines[first:last],
            tokens=self.tokens[rows],
            layout=self.layout.part(first, last),
            places=self.places[is_in] - rows.start,
            labels=self.labels[is_in],
            owners=self.owners[is_in] - first,
        )


Script = tuple[np.ndarray, np.ndarray]  # tokens, and which of them are learned


def make_batch(scripts: Sequence[Script], lines: list[str]) -> AnswerBatch:
    """Every token but the last of each is read; every learned one is written after the one before it."""
    lengths = [len(ids) - 1 for ids, _ in scripts]
    is_target = np.concatenate([learned[1:] for _, learned in scripts])
    places = np.flatnonzero(is_target)
    return AnswerBatch(
        lines,
        tokens=torch.from_numpy(np.concatenate([ids[:-1] for ids, _ in scripts])),
        layout=Ragged(lengths),
        places=torch.from_numpy(places),
        labels=torch.from_numpy(np.concatenate([ids[1:] for ids, _ in scripts])[places]),
        owners=torch.from_numpy(np.repeat(np.arange(len(scripts)), lengths)[places]),
    )


class Turns:
    """One part of a data set: each prompt followed by each of its answers, as tokens.

    `scripts[a][i]` is prompt i with answer a.  `last_only`: what the assistant said in the prompt is not learned.
    """

    def __init__(self, dialogues: Dialogues, tokenizer: Tokenizer, max_length: int, last_only: bool):
        template, self.dialogues = template_of(tokenizer), dialogues
        n_answers = len(dialogues.answers[0])
        self.scripts: list[list[Script]] = []
        for a in range(n_answers):
            answers = [(Message(ASSISTANT, texts[a]),) for texts in dialogues.answers]
            whole = template.read([prompt + answer for prompt, answer in zip(dialogues.prompts, answers, strict=True)])
            self.scripts.append([(ids, last_answer(learned) if last_only else learned) for ids, learned in whole])
        self.notes = Notes()
        self.notes.update(dialogues.notes)
        lengths = np.array([[len(ids) - 1 for ids, _ in scripts] for scripts in self.scripts])
        long = (lengths > max_length).any(0)
        alike = np.array(
            [len({ids.tobytes() for ids, _ in rivals}) < n_answers for rivals in zip(*self.scripts, strict=True)]
        )
        for reason, dropped in (
            (f"dropped: longer than {max_length} tokens", long),
            ("dropped: its answers are the same, so that none can be preferred", alike & ~long),
        ):
            if dropped.any():
                self.notes.add(reason, dialogues.places[np.flatnonzero(dropped)[0]], int(dropped.sum()))
        self.kept = np.flatnonzero(~long & ~alike)
        if not len(self.kept) and long.all():
            raise DataError(
                f"all {len(dialogues)} conversations are too long; raise data.max_length to {lengths.min()} at least"
            )
        if not len(self.kept):
            raise DataError(f"none of the {len(dialogues)} conversations can be used: {'; '.join(self.notes.rows())}")
        self.lengths = lengths.sum(0)[self.kept]

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def n_targets(self) -> int:
        """Tokens that are learned."""
        return sum(int(of_answer[i][1].sum()) for of_answer in self.scripts for i in self.kept)

    def describe(self) -> str:
        return f"{len(self):,} conversations, {self.lengths.sum():,} tokens, {self.n_targets:,} of them in answers"

    def batch(self, indices: np.ndarray) -> AnswerBatch:
        """All prompts with their first answers, then all with their second, and so on."""
        places = self.kept[indices]
        scripts = [of_answer[i] for of_answer in self.scripts for i in places]
        return make_batch(scripts, [self.dialogues.places[i] for i in places])

    def in_order(self, budget: int) -> list[np.ndarray]:
        """Everything once, in order."""
        return cut(np.arange(len(self)), self.lengths, budget)


def last_answer(learned: np.ndarray) -> np.ndarray:
    """Of several runs of learned tokens the last alone."""
    end = np.flatnonzero(learned)[-1]
    before = np.flatnonzero(~learned[:end])[-1]
    places = np.arange(len(learned))
    return (places > before) & (places <= end)


def answer_nats(model: LanguageModel, batch: AnswerBatch, smoothing: float) -> Tensor:
    """-log P of all learned tokens."""
    rows = model(batch.tokens, batch.layout)[batch.places]
    return cross_entropy(rows, model.output_table, batch.labels, smoothing)


def answer_log_probs(model: LanguageModel, batch: AnswerBatch) -> Tensor:
    """log P of the learned tokens of each sequence (sequences), all logits of them held at once."""
    rows = model(batch.tokens, batch.layout)[batch.places]
    nats = F.cross_entropy(logits(rows, model.output_table).float(), batch.labels, reduction="none")
    return -nats.new_zeros(batch.layout.n_sequences).index_add(0, batch.owners, nats)


@torch.no_grad()
def answer_divergences(model: LanguageModel, other: LanguageModel, batch: AnswerBatch) -> Tensor:
    """Σ_t KL(P(. | y_<t) ‖ P_other(. | y_<t)) along each answer (sequences): its mean over answers that the model drew
    is KL(P ‖ P_other) of whole answers."""

    def log_probs(of: LanguageModel) -> Tensor:
        return logits(of(batch.tokens, batch.layout)[batch.places], of.output_table).float().log_softmax(-1)

    ours, theirs = log_probs(model), log_probs(other)
    nats = (ours.exp() * (ours - theirs)).sum(-1)
    return nats.new_zeros(batch.layout.n_sequences).index_add(0, batch.owners, nats)


@torch.no_grad()
def mean_nats(model: LanguageModel, turns: Turns, budget: int) -> float:
    """-log P of a token of the answers, on average."""

    def nats(indices: np.ndarray) -> Tensor:
        return answer_nats(model, turns.batch(indices).to(model.device), 0.0)

    return sum(map(float, spread(list(turns.in_order(budget)), nats))) / turns.n_targets
