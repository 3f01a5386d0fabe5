"""A stack of Transformer blocks over one sequence.  With a causal sight it is GPT's, without it BERT's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard.checks import not_negative
from regard.errors import RegardError
from regard.models.transformer import TransformerConfig, initialise, initialise_small
from regard.nn.attention import MultiHeadAttention
from regard.nn.blocks import NORMS, EncoderBlock
from regard.nn.cache import Cache
from regard.nn.layout import Layout
from regard.nn.linear import Linear, as_computed
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
    n_segments: int = 0  # a learnt vector for each of so many parts of a sequence (BERT); 0: none
    separator: int = 2  # the token that ends a segment
    d_embedding: int = 0  # of embeddings and positions, which a product then widens (ELECTRA); 0: d_model

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "n_segments", "d_embedding", "separator")

    @property
    def embedding_width(self) -> int:
        return self.d_embedding or self.d_model


class Stack(nn.Module):
    """h_0 = embedding + position; h_l = block_l(h_(l-1))  (Radford et al. 2018, eq. 2; Devlin et al. 2019)"""

    blocks: Sequence[EncoderBlock]
    can_forget = True  # its states can be truncated
    is_recordable = True  # in training: batches of one shape take the same kernels, whatever is in them

    def __init__(self, config: StackConfig):
        super().__init__()
        self.config = c = config
        self.d_out, self.max_length = c.d_model, c.max_length
        self.sight = causal if c.causal else everywhere
        d = c.embedding_width
        self.position = POSITIONS[c.position](replace(c.space(one_sided=c.causal), d_model=d))
        self.embedding = nn.Embedding(c.vocab_size, d)
        self.segment = nn.Embedding(c.n_segments, d) if c.n_segments else None
        self.embedding_norm = NORMS[c.norm](d, c.norm_eps) if c.embedding_norm else nn.Identity()
        self.widen = nn.Identity() if d == c.d_model else Linear(d, c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(c.make_attention(self.position), c.make_feed_forward(), c.make_residual)
            for _ in range(c.n_layers)
        )
        self.norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.apply(initialise if c.scale_embedding else initialise_small)
        if c.pre_norm and not c.scale_embedding:
            shrink_residuals(self.blocks)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D)."""
        x = self.embed(tokens, layout)
        for block in self.blocks:
            x = block(x, layout, self.sight)
        return self.norm(x)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embedding(tokens) * (math.sqrt(self.config.d_model) if self.config.scale_embedding else 1.0)
        if self.segment is not None:
            x = x + self.segment(self.segments(tokens, layout))
        x = self.position.embed(x, layout.positions)
        return self.widen(as_computed(self.dropout(self.embedding_norm(x))))

    def segments(self, tokens: Tensor, layout: Layout) -> Tensor:
        return count_separators(tokens, layout, self.config.separator, self.config.n_segments)

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
        return Cache.empty(c.n_layers, n_rows, room, (c.heads.shared, c.heads.width), like=self.embedding.weight)

    def step(self, tokens: Tensor, state: Cache) -> Tensor:
        """The next tokens of each row (rows, n) -> the hidden row of each (rows, n, D).  The state advances."""
        n = tokens.shape[1]
        layout = state.queries(n)
        x = self.embed(tokens, layout)
        for i, block in enumerate(self.blocks):
            x = block(x, layout, self.sight, past=state.layer(i))
        state.advance(n)
        return self.norm(x)


def count_separators(tokens: Tensor, layout: Layout, separator: int, n_segments: int) -> Tensor:
    """The segment of each token: how many separators stand before it in its sequence; the last segment has no end."""
    ends = layout.pad((tokens == separator).long())
    return layout.flatten(ends.cumsum(1) - ends).clamp(max=max(n_segments - 1, 0))


def shrink_residuals(blocks: Sequence[EncoderBlock]) -> None:
    """What is added to the residual stream begins smaller, the more is added (Radford et al. 2019, section 2.3).

    Not where norms stand behind the sublayers, as in BERT: there each sum begins at one size anew.
    """
    for name, parameter in nn.ModuleList(blocks).named_parameters():
        if name.endswith(("to_output.weight", "contract.weight")):
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * len(blocks)))
