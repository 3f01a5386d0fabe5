"""Masked language modeling: documents in, their masked words out, and whether one text follows another."""

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.masked import MaskedWords, rows_at
from regard.tasks.exchange import MASKED
from regard.tasks.language.running_text import check_window
from regard.tasks.learnable import Sample
from regard.tasks.pretraining.batches import MaskedBatch, MaskedPassages
from regard.tasks.pretraining.settings import MaskedConfig
from regard.tasks.pretraining.task import MaskingTask
from regard.tasks.pretraining.use import fill
from regard.tasks.pretraining.verbs import Fill, Filled
from regard.tasks.use import Use
from regard.text.tokenizer import Tokenizer

SHOWN_TOKENS = 40  # of a validation passage


class MaskedLanguage(MaskingTask[MaskedWords]):
    """BERT's: the masked words and, if asked, whether one text follows another."""

    settings = MaskedConfig
    exchange = MASKED
    commands = (
        'regard fill RUN "Paris is the [MASK] of France."',
        "regard train sst2-bert --from RUN",
        "regard embed RUN FILE",
    )
    config: MaskedConfig

    @classmethod
    def build(cls, config: MaskedConfig, model: Any) -> MaskedWords:
        check_window(config.window, model)
        return MaskedWords(model, config.nsp)

    # Loss.

    def loss(self, model: MaskedWords, batch: MaskedBatch) -> Tensor:
        """The mean over the masked words and the mean over the passages are added, as in the paper; the loop divides by
        the number of words."""
        words, follows = nats(model, model(batch.tokens, batch.layout), batch)
        return words + follows * (batch.n_targets / batch.layout.n_sequences)

    def predictions(self, model: MaskedWords, batch: MaskedBatch) -> tuple[Tensor, Tensor, Tensor]:
        rows = model(batch.tokens, batch.layout)
        return model.word_logits(rows_at(rows, batch.places)), batch.labels, rows

    @classmethod
    def refuse_teacher(cls, config: MaskedConfig, theirs: Any) -> None:
        if config.nsp:
            raise ConfigError("distillation has no next-sentence prediction: set nsp = false")

    # Validation.

    @torch.no_grad()
    def figures(self, model: MaskedWords, part: MaskedPassages) -> dict[str, float]:
        """Nats and percent of the masked words, percent of what follows."""
        n_words = n_passages = 0
        of_words = of_next = right = right_next = 0.0
        for batch in (batch.to(model.device) for batch in part.all_batches(self.batch_tokens)):
            rows = model(batch.tokens, batch.layout)
            words, follows = nats(model, rows, batch)
            of_words, of_next = of_words + float(words), of_next + float(follows)
            right += int((model.guesses(rows_at(rows, batch.places)) == batch.labels).sum())
            n_words, n_passages = n_words + batch.n_targets, n_passages + batch.layout.n_sequences
            if batch.follows is not None:
                right_next += int((model.next_logits(rows, batch.layout).argmax(-1) == batch.follows).sum())
        values = {"loss": of_words / n_words + of_next / n_passages, "accuracy": 100 * right / n_words}
        if part.nsp:
            values |= {"word_loss": of_words / n_words, "next_accuracy": 100 * right_next / n_passages}
        return values

    @torch.no_grad()
    def samples(self, model: MaskedWords) -> list[Sample]:
        """The beginning of some validation passages, the words masked there, and what the model takes them for."""
        if self.valid is None or not self.config.shown:
            return []
        few = np.arange(min(self.config.shown, len(self.valid.corpus)))
        samples = []
        for i in few:
            batch = self.collate(self.valid, few[i : i + 1]).to(model.device)
            guesses = model.guesses(rows_at(model(batch.tokens, batch.layout), batch.places))
            is_shown = batch.places < SHOWN_TOKENS
            shown = with_marks(batch.tokens[:SHOWN_TOKENS].tolist(), self.tokenizer)
            truth, guess = ("|".join(self.tokenizer.tokens(ids[is_shown].tolist())) for ids in (batch.labels, guesses))
            samples.append((shown, truth, guess))
        return samples

    # For people, and use.

    def purpose(self) -> str:
        return "was trained to predict masked words" + (" and what follows a text" if self.config.nsp else "")

    @property
    def verbs(self) -> Mapping[str, Callable[[Use, Any], Any]]:
        return {"fill": self.fill, **super().verbs}

    def fill(self, use: Use, ask: Fill) -> list[Filled]:
        documents = [np.array(self.encode(text), np.int64) for text in ask.texts]
        return fill(use.model, self.tokenizer, documents, ask.top, self.batch_tokens)


def with_marks(ids: list[int], tokenizer: Tokenizer) -> str:
    """The text of some tokens, the special ones by their names."""
    marks = {tokenizer.special_id(name) for name in tokenizer.special}
    parts = [(is_mark, list(part)) for is_mark, part in groupby(ids, marks.__contains__)]
    return " ".join(" ".join(tokenizer.tokens(p)) if is_mark else tokenizer.decode(p).strip() for is_mark, p in parts)


def nats(model: MaskedWords, rows: Tensor, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
    """-log P of all masked words, and of all answers to what follows (0 where it is not asked), of the hidden rows."""
    words = model.word_nats(rows_at(rows, batch.places), batch.labels)
    if batch.follows is None:
        return words, words.new_zeros(())
    logits = model.next_logits(rows, batch.layout).float()
    return words, F.cross_entropy(logits, batch.follows, reduction="sum")
