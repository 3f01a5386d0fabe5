"""Replaced words (ELECTRA): documents in, and for every word whether it is the text's own or a generator's."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.masked import ReplacedWords, draw, rows_at
from regard.tasks.language.running_text import check_window
from regard.tasks.pretraining.batches import MaskedBatch, MaskedPassages
from regard.tasks.pretraining.settings import ReplacedConfig
from regard.tasks.pretraining.task import MaskingTask


class Judged(NamedTuple):
    """A batch, filled in by the generator and judged by the reader."""

    word_nats: Tensor  # of the masked words, all together
    tokens: Tensor  # N, with the generator's words
    is_replaced: Tensor  # N, where they differ from the text's; one that the generator guessed right is the text's own
    logits: Tensor  # N, above 0 where the reader takes a word for replaced

    @property
    def nats(self) -> Tensor:
        """Of all tokens together."""
        return F.binary_cross_entropy_with_logits(self.logits.float(), self.is_replaced.float(), reduction="sum")


class ReplacedLanguage(MaskingTask[ReplacedWords]):
    """ELECTRA's: which words of a text a generator has replaced."""

    settings = ReplacedConfig
    commands = ("regard train sst2-bert --from RUN", "regard embed RUN FILE", "regard evaluate RUN")
    config: ReplacedConfig

    @classmethod
    def build(cls, config: ReplacedConfig, model: Any) -> ReplacedWords:
        check_window(config.window, model)
        return ReplacedWords(model, config.generator)

    def loss(self, model: ReplacedWords, batch: MaskedBatch) -> Tensor:
        """The mean over the masked words, and `weight` times the mean over all tokens (Clark et al. 2020, section 2);
        the loop divides by the number of words.  No gradient goes through the words that are drawn."""
        judged = judge(model, batch)
        return judged.word_nats + self.config.weight * judged.nats * (batch.n_targets / batch.n_tokens)

    @torch.no_grad()
    def figures(self, model: ReplacedWords, part: MaskedPassages) -> dict[str, float]:
        """The loss; of all tokens, how many percent are judged right; and how many of the replaced ones are found."""
        chance = torch.Generator(model.device).manual_seed(0)
        n_words = n_tokens = n_replaced = 0
        word_nats = nats = right = seen = 0.0
        for batch in (batch.to(model.device) for batch in part.all_batches(self.batch_tokens)):
            judged = judge(model, batch, chance)
            verdict = judged.logits > 0
            n_words, n_tokens = n_words + batch.n_targets, n_tokens + batch.n_tokens
            n_replaced += int(judged.is_replaced.sum())
            word_nats, nats = word_nats + float(judged.word_nats), nats + float(judged.nats)
            right += int((verdict == judged.is_replaced).sum())
            seen += int((verdict & judged.is_replaced).sum())
        return {
            "loss": word_nats / n_words + self.config.weight * nats / n_tokens,
            "accuracy": 100 * right / n_tokens,
            "found": 100 * seen / max(n_replaced, 1),
            "word_loss": word_nats / n_words,
        }

    def purpose(self) -> str:
        return "was trained to detect which words of a text were replaced"


def judge(model: ReplacedWords, batch: MaskedBatch, chance: torch.Generator | None = None) -> Judged:
    words = rows_at(model.generator(batch.tokens, batch.layout), batch.places)
    word_nats = model.generator.word_nats(words, batch.labels)
    own = batch.tokens.scatter(0, batch.places, batch.labels)
    with torch.no_grad():
        drawn = draw(model.generator.word_logits(words), chance)
    tokens = own.scatter(0, batch.places, drawn)
    return Judged(word_nats, tokens, tokens != own, model.replaced_logits(model(tokens, batch.layout)))
