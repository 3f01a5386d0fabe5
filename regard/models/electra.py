"""ELECTRA: a small generator fills in masked words, and the reader finds those that are not the text's own."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.heads import Head
from regard.models.masked import MaskedWords, check_sees_both_sides
from regard.models.stack import Stack, StackConfig
from regard.nn.linear import n_weights


class ReplacedWords(Head):
    """P(x_t was replaced) = σ(w·gelu(W h_t + b) + c)  (Clark et al. 2020, section 2)

    The words that replace masked ones are drawn from a generator, which learns to predict them.  It has the reader's
    embeddings and is otherwise a stack of its own, narrower by `share`.
    """

    def __init__(self, reader: Stack, share: float):
        check_sees_both_sides(reader)
        super().__init__(reader)
        self.detect = nn.Linear(reader.d_out, reader.d_out)
        self.to_replaced = nn.Linear(reader.d_out, 1)
        own = Stack(narrower(reader.config, share))
        own.embedding.replace_vectors(reader.word_table)
        self.generator = MaskedWords(own, nsp=False)

    def replaced_logits(self, rows: Tensor) -> Tensor:
        """Hidden rows (N, D) -> (N), above 0 where a word seems to be replaced."""
        return self.to_replaced(F.gelu(self.detect(rows)))[:, 0]

    def own_multiplications(self) -> float:
        """The generator's looks, and its comparison of the few masked rows with every word, are not counted."""
        return n_weights(self.detect, self.to_replaced, self.generator.transform) + (
            self.generator.reader.multiplications(length=0)
        )


def narrower(config: StackConfig, share: float) -> StackConfig:
    """Fewer heads of the same width, and a narrower net between; embeddings as wide as they are."""
    n_heads = max(1, round(share * config.n_heads))
    return replace(
        config,
        n_heads=n_heads,
        n_key_heads=0,
        d_model=n_heads * config.heads.width,
        d_ff=max(1, round(share * config.d_ff)),
        d_embedding=config.embedding_width,
    )


def draw(logits: Tensor, chance: torch.Generator | None = None) -> Tensor:
    """A word for each row of logits (M, V), with its probability; chance is PyTorch's own, or given."""
    return torch.multinomial(logits.float().softmax(-1), 1, generator=chance)[:, 0]
