"""What BERT is pretrained with: the words that were masked, and whether the second text follows the first.

And ELECTRA: a small generator fills in masked words, and the reader finds those that are not the text's own.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import expect
from regard.errors import ConfigError
from regard.models.heads import ROWS, ReaderHead, WordHead
from regard.models.interface import AnyReader, Reader
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Gather, Layout
from regard.nn.linear import logits, n_weights
from regard.nn.loss import cross_entropy
from regard.nn.pooling import summary

STD = 0.02  # with which BERT's weights begin


class MaskedWords(WordHead):
    """P(x_t | all but the masked) = softmax(E norm(gelu(W h_t + b)) + c), E being the embeddings
    P(b follows a) = softmax(V tanh(U h_1 + u) + v), with nsp  (Devlin et al. 2019, section 3.1 and appendix A)"""

    def __init__(self, reader: AnyReader, nsp: bool):
        check_sees_both_sides(reader)
        super().__init__(reader)
        config = expect(reader.config, StackConfig)
        vocab_size, d_embedding = reader.word_table.shape
        self.transform = nn.Linear(reader.d_out, d_embedding)
        self.norm = nn.LayerNorm(d_embedding, eps=config.norm_eps)
        self.own_table = None if config.tied else nn.Parameter(torch.empty(vocab_size, d_embedding))
        self.output_bias = nn.Parameter(torch.zeros(vocab_size))
        self.pooler = nn.Linear(reader.d_out, reader.d_out) if nsp else None
        self.to_next = nn.Linear(reader.d_out, 2) if nsp else None
        for part in (self.transform, self.pooler, self.to_next):
            if part is not None:
                nn.init.normal_(part.weight, std=STD)
                nn.init.zeros_(part.bias)
        if self.own_table is not None:
            nn.init.normal_(self.own_table, std=STD)

    def words(self, rows: Tensor) -> Tensor:
        """Hidden rows (M, D) -> what is compared with the embeddings (M, d_embedding)."""
        return self.norm(F.gelu(self.transform(rows)))

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
        assert self.pooler is not None and self.to_next is not None, (
            "a head without nsp does not know which text follows"
        )
        return self.to_next(torch.tanh(self.pooler(summary(rows, layout, "first"))))


class ReplacedWords(ReaderHead):
    """P(x_t was replaced) = σ(w·gelu(W h_t + b) + c)  (Clark et al. 2020, section 2)

    The words that replace masked ones are drawn from a generator, which learns to predict them.  It has the reader's
    embeddings and is otherwise a stack of its own, narrower by `share`.
    """

    def __init__(self, reader: AnyReader, share: float):
        check_sees_both_sides(reader)
        super().__init__(reader)
        self.detect = nn.Linear(reader.d_out, reader.d_out)
        self.to_replaced = nn.Linear(reader.d_out, 1)
        own = Stack(narrower(expect(reader.config, StackConfig), share))
        own.embedding.replace_vectors(reader.word_table)
        self.is_recordable = False  # every row counts: none could be added to fill up a batch
        self.generator = MaskedWords(own, nsp=False)

    def replaced_logits(self, rows: Tensor) -> Tensor:
        """Hidden rows (N, D) -> (N), above 0 where a word seems to be replaced."""
        return self.to_replaced(F.gelu(self.detect(rows)))[:, 0]

    def own_multiplications(self) -> float:
        """The generator's looks, and its comparison of the few masked rows with every word, are not counted."""
        of_generator = self.generator.reader.multiplications(length=0) + n_weights(self.generator.transform)
        return n_weights(self.detect, self.to_replaced) + of_generator


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


def check_sees_both_sides(reader: Reader) -> None:
    if not reader.can_fill:
        raise ConfigError(
            "masked words are predicted from both sides, by a stack of Transformer blocks: "
            "set model.architecture = 'stack' and model.causal = false"
        )


def rows_at(rows: Tensor, places: Tensor) -> Tensor:
    """The rows at these places, each of them there once."""
    return Gather.apply(rows, places)
