"""Masked language modelling: documents in, their hidden words out, and whether one text follows another."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import not_negative
from regard.models.masked import MaskedWords, rows_at
from regard.tasks.language.task import check_window
from regard.tasks.pretraining.batches import HiddenBatch, Hider
from regard.tasks.pretraining.task import HiddenConfig, HiddenWords
from regard.text.tokenizer import Tokenizer

SHOWN_TOKENS = 40  # of a validation passage


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(HiddenConfig):
    nsp: bool = True  # tell also whether the second half of a passage follows the first: next-sentence prediction
    shown: int = 2  # passages shown at each validation

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "shown")

    @property
    def asks_next(self) -> bool:
        return self.nsp


class MaskedLanguage(HiddenWords):
    """The task as the training loop knows it (`regard.training.task`)."""

    @staticmethod
    def build(config: MaskedConfig, reader: Any) -> MaskedWords:
        check_window(config.window, reader)
        return MaskedWords(reader, config.nsp)

    # Loss.

    def loss(self, model: Any, batch: HiddenBatch) -> Tensor:
        """The mean over the hidden words and the mean over the passages are added, as in the paper; the loop divides by
        the number of words."""
        words, follows = nats(model, model(batch.tokens, batch.layout), batch)
        return words + follows * (batch.n_targets / batch.layout.n_sequences)

    def predictions(self, model: Any, batch: HiddenBatch) -> tuple[Tensor, Tensor]:
        """For who compares two models: the logits of every hidden word (M, V), and all hidden rows (N, D)."""
        rows = model(batch.tokens, batch.layout)
        return model.word_logits(rows_at(rows, batch.places)), rows

    def plain_loss(self, model: Any, batch: HiddenBatch) -> Tensor:
        return self.loss(model, batch)

    # Validation.

    @staticmethod
    def figures(model: Any, found: Hider, config: MaskedConfig, batch_tokens: int) -> dict[str, float]:
        """Nats and percent of the hidden words, percent of what follows."""
        return measured(model, found, batch_tokens)

    @torch.no_grad()
    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        """The beginning of some validation passages, the words hidden there, and what the model takes them for."""
        if self.valid is None or not self.config.shown:
            return []
        few = np.arange(min(self.config.shown, len(self.valid.corpus)))
        found = []
        for i in few:
            batch = self.valid.batch(few[i : i + 1], seed=0, draw=0).to(model.device)
            guesses = model.guesses(rows_at(model(batch.tokens, batch.layout), batch.places))
            is_shown = batch.places < SHOWN_TOKENS
            shown = with_marks(batch.tokens[:SHOWN_TOKENS].tolist(), self.tokenizer)
            truth, guess = ("|".join(self.tokenizer.tokens(ids[is_shown].tolist())) for ids in (batch.labels, guesses))
            found.append((shown, truth, guess))
        return found

    def purpose(self) -> str:
        return "learnt to tell the hidden words of a text" + (" and what follows it" if self.config.nsp else "")

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f'regard fill {folder} "Paris is the [MASK] of France."',
            f"regard train sst2-bert --from {folder}",
            f"regard embed {folder} FILE",
        )


def with_marks(ids: list[int], tokenizer: Tokenizer) -> str:
    """The text of some tokens, the special ones by their names."""
    marks = {tokenizer.special_id(name) for name in tokenizer.special}
    parts = [(is_mark, list(part)) for is_mark, part in groupby(ids, marks.__contains__)]
    return " ".join(" ".join(tokenizer.tokens(p)) if is_mark else tokenizer.decode(p).strip() for is_mark, p in parts)


def nats(model: Any, rows: Tensor, batch: HiddenBatch) -> tuple[Tensor, Tensor]:
    """-log P of all hidden words, and of all answers to what follows (0 where it is not asked), of the hidden rows."""
    words = model.word_nats(rows_at(rows, batch.places), batch.labels)
    if batch.follows is None:
        return words, words.new_zeros(())
    logits = model.next_logits(rows, batch.layout).float()
    return words, F.cross_entropy(logits, batch.follows, reduction="sum")


@torch.no_grad()
def measured(model: Any, found: Hider, batch_tokens: int) -> dict[str, float]:
    """The figures of a whole text, every passage once, with the same words hidden each time."""
    n_words = n_passages = 0
    of_words = of_next = right = right_next = 0.0
    for batch in (batch.to(model.device) for batch in found.all_batches(batch_tokens)):
        rows = model(batch.tokens, batch.layout)
        words, follows = nats(model, rows, batch)
        of_words, of_next = of_words + float(words), of_next + float(follows)
        right += int((model.guesses(rows_at(rows, batch.places)) == batch.labels).sum())
        n_words, n_passages = n_words + batch.n_targets, n_passages + batch.layout.n_sequences
        if batch.follows is not None:
            right_next += int((model.next_logits(rows, batch.layout).argmax(-1) == batch.follows).sum())
    values = {"loss": of_words / n_words + of_next / n_passages, "accuracy": 100 * right / n_words}
    if found.nsp:
        values |= {"word_loss": of_words / n_words, "next_accuracy": 100 * right_next / n_passages}
    return values
