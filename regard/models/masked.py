"""What BERT is pre-trained with: the words that were hidden, and whether the second text follows the first."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.heads import ROWS, Head
from regard.models.stack import Stack
from regard.nn.layout import Gather, Layout
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.nn.pooling import summary

STD = 0.02  # with which BERT's weights begin


class MaskedWords(Head):
    """P(x_t | all but the hidden) = softmax(E norm(gelu(W h_t + b)) + c), E being the embeddings
    P(b follows a) = softmax(V tanh(U h_1 + u) + v), if it is asked  (Devlin et al. 2019, section 3.1 and appendix A)"""

    def __init__(self, reader: Any, nsp: bool):
        check_sees_both_sides(reader)
        super().__init__(reader)
        vocab_size, d_embedding = reader.embedding.weight.shape
        self.transform = nn.Linear(reader.d_out, d_embedding)
        self.norm = nn.LayerNorm(d_embedding, eps=reader.config.norm_eps)
        self.own_table = None if reader.config.tied else nn.Parameter(torch.empty(vocab_size, d_embedding))
        self.output_bias = nn.Parameter(torch.zeros(vocab_size))
        self.pooler = nn.Linear(reader.d_out, reader.d_out) if nsp else None
        self.to_next = nn.Linear(reader.d_out, 2) if nsp else None
        for part in (self.transform, self.pooler, self.to_next):
            if part is not None:
                nn.init.normal_(part.weight, std=STD)
                nn.init.zeros_(part.bias)
        if self.own_table is not None:
            nn.init.normal_(self.own_table, std=STD)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D)."""
        rows: Tensor = self.reader(tokens, layout)
        return rows

    def words(self, rows: Tensor) -> Tensor:
        """Hidden rows (M, D) -> what is compared with the embeddings (M, d_embedding)."""
        hidden: Tensor = self.norm(F.gelu(self.transform(rows)))
        return hidden

    def word_logits(self, rows: Tensor) -> Tensor:
        """Hidden rows (M, D) -> (M, V)."""
        return logits(self.words(rows), self.output_table, self.output_bias)

    def word_nats(self, rows: Tensor, labels: Tensor) -> Tensor:
        """-log P of all labels, one for each row."""
        return cross_entropy(self.words(rows), self.output_table, labels, bias=self.output_bias)

    def guesses(self, rows: Tensor) -> Tensor:
        """The likeliest word of each row (M)."""
        return torch.cat([self.word_logits(part).argmax(-1) for part in rows.split(ROWS)])

    def next_logits(self, rows: Tensor, layout: Layout) -> Tensor:
        """All hidden rows (N, D) -> (B, 2): the second text follows the first, or it does not."""
        assert self.pooler is not None and self.to_next is not None, "a head without nsp was asked what follows"
        first = summary(rows, layout, "first")
        found: Tensor = self.to_next(torch.tanh(self.pooler(first)))
        return found

    @property
    def output_table(self) -> Tensor:
        table: Tensor = self.reader.embedding.weight
        return table if self.own_table is None else self.own_table


def check_sees_both_sides(reader: Any) -> None:
    if not isinstance(reader, Stack) or reader.config.causal:
        raise ConfigError(
            "hidden words are told from both sides, by a stack of Transformer blocks: "
            "set model.architecture = 'stack' and model.causal = false"
        )


def rows_at(rows: Tensor, places: Tensor) -> Tensor:
    """The rows at these places, each of them there once."""
    return Gather.apply(rows, places)
