"""Replaced words (ELECTRA): documents in, and out of every word whether it is the text's own or a generator's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import positive, positive_share
from regard.models.electra import ReplacedWords, draw
from regard.models.masked import rows_at
from regard.tasks.language.task import check_window
from regard.tasks.pretraining.batches import HiddenBatch, Hider
from regard.tasks.pretraining.task import HiddenConfig, HiddenWords


@dataclass(frozen=True, kw_only=True)
class ReplacedConfig(HiddenConfig):
    generator: float = 0.25  # the generator's width, as a share of the reader's
    weight: float = 50.0  # of what the reader tells, beside the generator's hidden words

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_share(self, "generator")
        positive(self, "weight")


class Judged(NamedTuple):
    """A batch, filled in by the generator and judged by the reader."""

    word_nats: Tensor  # of the hidden words, all together
    tokens: Tensor  # N, with the generator's words
    is_replaced: Tensor  # N, where they differ from the text's; one that the generator guessed right is the text's own
    logits: Tensor  # N, above 0 where the reader takes a word for replaced

    @property
    def nats(self) -> Tensor:
        """Of all tokens together."""
        return F.binary_cross_entropy_with_logits(self.logits.float(), self.is_replaced.float(), reduction="sum")


class ReplacedLanguage(HiddenWords):
    """The task as the training loop knows it (`regard.training.task`)."""

    @staticmethod
    def build(config: ReplacedConfig, reader: Any) -> ReplacedWords:
        check_window(config.window, reader)
        return ReplacedWords(reader, config.generator)

    def loss(self, model: ReplacedWords, batch: HiddenBatch) -> Tensor:
        """The mean over the hidden words, and `weight` times the mean over all tokens (Clark et al. 2020, section 2);
        the loop divides by the number of words.  Through the words that are drawn goes no gradient."""
        found = judge(model, batch)
        return found.word_nats + self.config.weight * found.nats * (batch.n_targets / batch.n_tokens)

    def plain_loss(self, model: ReplacedWords, batch: HiddenBatch) -> Tensor:
        return self.loss(model, batch)

    @staticmethod
    def figures(model: ReplacedWords, found: Hider, config: ReplacedConfig, batch_tokens: int) -> dict[str, float]:
        return measured(model, found, config.weight, batch_tokens)

    def samples(self, model: ReplacedWords) -> list[tuple[str, str, str]]:
        """Nothing that would be read: the judgement of every word."""
        return []

    def purpose(self) -> str:
        return "learnt to tell which words of a text were replaced"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard train sst2-bert --from {folder}", f"regard embed {folder} FILE", f"regard evaluate {folder}")


def judge(model: ReplacedWords, batch: HiddenBatch, chance: torch.Generator | None = None) -> Judged:
    words = rows_at(model.generator(batch.tokens, batch.layout), batch.places)
    word_nats = model.generator.word_nats(words, batch.labels)
    own = batch.tokens.scatter(0, batch.places, batch.labels)
    with torch.no_grad():
        drawn = draw(model.generator.word_logits(words), chance)
    tokens = own.scatter(0, batch.places, drawn)
    return Judged(word_nats, tokens, tokens != own, model.replaced_logits(model(tokens, batch.layout)))


@torch.no_grad()
def measured(model: ReplacedWords, found: Hider, weight: float, batch_tokens: int) -> dict[str, float]:
    """The figures of a whole text: the loss; of all tokens, how many per cent are judged right; and how many of the
    replaced ones are found."""
    chance = torch.Generator(model.device).manual_seed(0)
    n_words = n_tokens = n_replaced = 0
    word_nats = nats = right = seen = 0.0
    for batch in (batch.to(model.device) for batch in found.all_batches(batch_tokens)):
        judged = judge(model, batch, chance)
        verdict = judged.logits > 0
        n_words, n_tokens = n_words + batch.n_targets, n_tokens + batch.n_tokens
        n_replaced += int(judged.is_replaced.sum())
        word_nats, nats = word_nats + float(judged.word_nats), nats + float(judged.nats)
        right += int((verdict == judged.is_replaced).sum())
        seen += int((verdict & judged.is_replaced).sum())
    return {
        "loss": word_nats / n_words + weight * nats / n_tokens,
        "accuracy": 100 * right / n_tokens,
        "found": 100 * seen / max(n_replaced, 1),
        "word_loss": word_nats / n_words,
    }
