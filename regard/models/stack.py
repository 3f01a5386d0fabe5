"""A stack of Transformer blocks over one sequence.  With a causal sight it is GPT's, without it BERT's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from regard.errors import RegardError
from regard.models.transformer import TransformerConfig, initialise
from regard.nn.attention import MultiHeadAttention
from regard.nn.blocks import FEED_FORWARDS, NORMS, EncoderBlock, Residual
from regard.nn.cache import Cache
from regard.nn.layout import Layout
from regard.nn.positions import POSITIONS
from regard.nn.sight import causal, everywhere


@dataclass(frozen=True, kw_only=True)
class StackConfig(TransformerConfig):
    """The settings of a Transformer; the defaults are GPT-2's and BERT's base size."""

    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    d_ff: int = 3072
    position: str = "learned"
    feed_forward: str = "gelu"
    pre_norm: bool = True
    causal: bool = True  # nobody looks at the future: needed to write text


class Stack(nn.Module):
    """h_0 = embedding + position; h_l = block_l(h_(l-1))  (Radford et al. 2018, eq. 2; Devlin et al. 2019)"""

    blocks: Sequence[EncoderBlock]

    def __init__(self, config: StackConfig):
        super().__init__()
        self.config = c = config
        self.d_out, self.max_length = c.d_model, c.max_length
        self.sight = causal if c.causal else everywhere
        self.position = POSITIONS[c.position](c.d_model, c.n_heads, c.max_length)
        norm, feed_forward = NORMS[c.norm], FEED_FORWARDS[c.feed_forward]

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(c.d_model, c.n_heads, c.score, self.position)

        def residual() -> Residual:
            return Residual(norm(c.d_model), c.dropout, c.pre_norm)

        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(attention(), feed_forward(c.d_model, c.d_ff), residual) for _ in range(c.n_layers)
        )
        self.norm = norm(c.d_model) if c.pre_norm else nn.Identity()
        self.apply(initialise)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D)."""
        x = self.embed(tokens, layout)
        for block in self.blocks:
            x = block(x, layout, self.sight)
        return self.norm(x)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        return self.dropout(self.position.embed(x, layout.positions))

    def attentions(self) -> Iterator[tuple[str, int, MultiHeadAttention]]:
        for i, block in enumerate(self.blocks):
            yield "self", i, block.attention

    # Decoding: the interface of `regard.decoding.interface`, with hidden rows in place of logits.

    def start(self, n_rows: int, room: int) -> Cache:
        """Nothing read yet, and room for `room` tokens a row."""
        if not self.config.causal:
            raise RegardError("this stack looks at the future, so it cannot write; train with causal = true")
        if room > self.max_length:
            raise RegardError(f"{room} tokens do not fit the model's {self.max_length}; ask for fewer")
        c = self.config
        return Cache.empty(c.n_layers, n_rows, room, c.n_heads, like=self.embedding.weight)

    def step(self, tokens: Tensor, state: Cache) -> Tensor:
        """The next tokens of each row (rows, n) -> the hidden row of each (rows, n, D).  The state advances."""
        n = tokens.shape[1]
        layout = state.queries(n)
        x = self.embed(tokens, layout)
        for i, block in enumerate(self.blocks):
            x = block(x, layout, self.sight, past=state.layer(i))
        state.advance(n)
        return self.norm(x)
