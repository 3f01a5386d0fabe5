"""Masked language modelling: documents in, their hidden words out, and whether one text follows another."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.choose import choose
from regard.data.batches import Packing
from regard.data.config import DataConfig
from regard.data.corpus import DOCUMENTS, Corpus
from regard.data.report import Row, text_rows
from regard.data.shards import tokenise
from regard.data.streams import PlainText, read_parts
from regard.errors import ConfigError
from regard.evaluation.metric import Metric
from regard.models.masked import MaskedWords, rows_at
from regard.tasks.hidden import N_FIXED, HiddenBatch, Hider
from regard.tasks.language import evaluated_text, test_text
from regard.tasks.setup import Setup

# How often the hidden words are drawn before they come again: BERT's data held ten copies of each text (section A.2),
# RoBERTa's texts are never hidden in the same way twice (Liu et al. 2019, section 4.1).
MASKS: dict[str, int | None] = {"static": 10, "dynamic": None}
SHOWN_TOKENS = 40  # of a validation passage


@dataclass(frozen=True, kw_only=True)
class MaskedConfig:
    documents: str = "lines"  # what a document is: a line, or a block of lines up to an empty one
    window: int = 128  # the most tokens of a passage, <s> and </s> among them
    share: float = 0.15  # of the tokens that are hidden
    masks: str = "dynamic"  # drawn anew each epoch; static: ten draws, again and again
    nsp: bool = True  # tell also whether the second half of a passage follows the first: next-sentence prediction
    shown: int = 2  # passages shown at each validation
    metric: str = "loss"

    def __post_init__(self) -> None:
        choose(DOCUMENTS, self.documents, "kind of documents")
        choose(MASKS, self.masks, "kind of masks")
        if self.window < N_FIXED[self.nsp] + 2:
            raise ConfigError(f"window must be at least {N_FIXED[self.nsp] + 2}, got {self.window}")
        if not 0 < self.share < 1:
            raise ConfigError(f"share must be above 0 and below 1, got {self.share}")
        if self.shown < 0:
            raise ConfigError(f"shown must not be negative, got {self.shown}")
        if self.metric not in ("loss", "accuracy"):
            raise ConfigError(f"metric must be loss or accuracy, got {self.metric!r}")


class MaskedLanguage:
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)

    def __init__(self, config: MaskedConfig, train: Hider, valid: Hider | None, setup: Setup):
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.seed, self.batch_tokens = setup.tokenizer, setup.seed, setup.data.batch_tokens
        self.packing = Packing(train.lengths, self.batch_tokens, setup.data.order, setup.seed)
        self.metric, self.higher_is_better = config.metric, config.metric == "accuracy"

    @classmethod
    def make(cls, config: MaskedConfig, setup: Setup) -> Self:
        parts = read_parts(setup.data, "lines")
        train, valid = (None if text is None else hider(text, config, setup) for text in (parts.train, parts.valid))
        assert train is not None
        return cls(config, train, valid, setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return read_parts(data, "lines").train.lines

    @staticmethod
    def build(config: MaskedConfig, reader: Any) -> MaskedWords:
        if config.window > reader.max_length:
            raise ConfigError(
                f"a window of {config.window} tokens does not fit model.max_length = {reader.max_length}; "
                "lower task.window or raise model.max_length"
            )
        return MaskedWords(reader, config.nsp)

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> HiddenBatch:
        n_draws = MASKS[self.config.masks]
        return self.train.batch(
            self.packing.epoch(epoch)[index], self.seed, draw=epoch if n_draws is None else epoch % n_draws
        )

    def small_batch(self, n_tokens: int) -> HiddenBatch:
        return next(self.train.all_batches(n_tokens))

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

    def tensors(self) -> dict[str, Tensor]:
        """Nothing is carried from batch to batch."""
        return {}

    def restore(self, tensors: dict[str, Tensor], model: Any) -> None:
        pass

    # Validation.

    def validate(self, model: Any) -> dict[str, float]:
        """With the same words hidden each time: nats and percent of the hidden words, percent of what follows."""
        return {} if self.valid is None else measured(model, self.valid, self.batch_tokens)

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
            shown = batch.tokens[:SHOWN_TOKENS].tolist()
            truth, guess = ("|".join(self.tokenizer.tokens(ids[is_shown].tolist())) for ids in (batch.labels, guesses))
            found.append(("".join(self.tokenizer.tokens(shown)), truth, guess))
        return found

    @classmethod
    def measure(
        cls, model: Any, config: MaskedConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation text), and what they are of."""
        what, text = evaluated_text(setup.data, "lines", files)
        found = hider(text, config, setup)
        values = measured(model, found, setup.data.batch_tokens)
        signature = f"documents:{config.documents}|window:{config.window}|share:{config.share:g}|n:{len(found.corpus)}"
        return what, [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": self.train.corpus.text, "valid": None if self.valid is None else self.valid.corpus.text}
        parts["test"] = test_text(data, "lines")
        known = set().union(*self.train.corpus.text.lines)
        return [
            row
            for name, text in parts.items()
            if text is not None
            for row in text_rows(name, text, tokenise(text.lines, self.tokenizer), self.tokenizer, known)
        ]

    def rows(self) -> list[tuple[str, str]]:
        rows = [("training text", describe(self.train.corpus))]
        if self.valid is not None:
            rows.append(("validation text", describe(self.valid.corpus)))
        return rows + [("decided", row) for row in self.train.corpus.notes.rows()]

    def purpose(self) -> str:
        return "learnt to tell the hidden words of a text" + (" and what follows it" if self.config.nsp else "")

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (
            f'regard fill {folder} "Paris is the [MASK] of France."',
            f"regard train sst2-bert --from {folder}",
            f"regard embed {folder} FILE",
        )


def hider(text: PlainText, config: MaskedConfig, setup: Setup) -> Hider:
    width = config.window - N_FIXED[config.nsp]
    corpus = Corpus(text, config.documents, width, setup.tokenizer, setup.cache)
    return Hider(corpus, setup.tokenizer, config.share, config.nsp)


def describe(corpus: Corpus) -> str:
    return f"{len(corpus.ids):,} tokens in {len(corpus.places):,} documents, {len(corpus):,} passages"


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
