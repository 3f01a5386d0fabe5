"""A stack of Transformer blocks over one sequence.  With a causal sight it is GPT's, without it BERT's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from regard.checks import not_negative
from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable, words_or
from regard.models.interface import Reader
from regard.models.transformer import TransformerConfig, initialize, initialize_small
from regard.nn.attention import Attention
from regard.nn.blocks import NORMS, EncoderBlock
from regard.nn.cache import Cache
from regard.nn.layout import Layout
from regard.nn.linear import Linear, as_computed, n_weights
from regard.nn.positions import make_position
from regard.nn.sight import causal, everywhere


@dataclass(frozen=True, kw_only=True)
class StackConfig(TransformerConfig):
    """The settings of a Transformer; the defaults are GPT-2's and BERT's base size."""

    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12  # how many layers
    d_ff: int = 3072
    position: str = "learned"
    feed_forward: str = "gelu"
    pre_norm: bool = True
    causal: bool = True  # no token sees the future: needed to write text
    n_segments: int = 0  # a learned vector for each of this many parts of a sequence (BERT's two sentences); 0: none
    separator: int = 2  # the token that ends a segment; 2 is </s>
    d_embedding: int = 0  # width of embeddings and positions, which a product then widens (ELECTRA); 0: d_model

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "n_segments", "d_embedding", "separator")

    @property
    def embedding_width(self) -> int:
        return self.d_embedding or self.d_model


class Stack(Reader[Cache]):
    """h_0 = embedding + position; h_l = block_l(h_(l-1))  (Radford et al. 2018, eq. 2; Devlin et al. 2019)

    It reads words, or what another input table makes rows of.
    """

    config: StackConfig
    blocks: Sequence[EncoderBlock]
    can_forget = True
    is_recordable = is_exportable = True

    def __init__(self, config: StackConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
        self.sight = causal if c.causal else everywhere
        self.sees_future = self.can_fill = not c.causal
        d = c.embedding_width
        self.position = make_position(c.position, replace(c.space(one_sided=c.causal), d_model=d))
        self.sees_length = self.position.sees_length
        scale = math.sqrt(c.d_model) if c.scale_embedding else 1.0
        self.embedding = words_or(inputs, c.vocab_size, d, scale)
        if c.n_segments and self.embedding.vectors is None:
            raise ConfigError("segments end with a token: n_segments must be 0 where a model does not read words")
        self.segment = nn.Embedding(c.n_segments, d) if c.n_segments else None
        self.embedding_norm = NORMS[c.norm](d, c.norm_eps) if c.embedding_norm else nn.Identity()
        self.widen = nn.Identity() if d == c.d_model else Linear(d, c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(c.make_attention(self.position), c.make_feed_forward(), c.make_residual)
            for _ in range(c.n_layers)
        )
        self.norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.apply(initialize if c.scale_embedding else initialize_small)
        if c.pre_norm and not c.scale_embedding:
            # What is added to the residual stream begins smaller, the more is added (Radford et al. 2019, section 2.3).
            # Not where norms come after the sublayers, as in BERT: they bring each sum back to one size.
            for name, parameter in nn.ModuleList(self.blocks).named_parameters():
                if name.endswith(("to_output.weight", "contract.weight")):
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * c.n_layers))

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embed(tokens, layout)
        for block in self.blocks:
            x = block(x, layout, self.sight)
        return self.norm(x)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embedding(tokens, layout)
        if self.segment is not None:
            x = x + self.segment(self.segments(tokens, layout))
        x = self.position.embed(x, layout.positions)
        return self.widen(as_computed(self.dropout(self.embedding_norm(x))))

    def segments(self, tokens: Tensor, layout: Layout) -> Tensor:
        return count_separators(tokens, layout, self.config.separator, self.config.n_segments)

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        for i, block in enumerate(self.blocks):
            yield "self", i, block.attention

    def multiplications(self, length: int) -> float:
        n_keys = length if self.sees_future else length / 2  # on average half the past
        return n_weights(self.widen) + sum(block.multiplications(n_keys) for block in self.blocks)

    def start(self, n_rows: int, room: int) -> Cache:
        if not self.config.causal:
            raise RegardError("this stack looks at the future, so it cannot write; train with causal = true")
        if room > self.max_length:
            raise RegardError(f"{room} tokens do not fit the model's {self.max_length}; ask for fewer")
        c = self.config
        return Cache.empty(c.n_layers, n_rows, room, (c.heads.shared, c.heads.width), like=next(self.parameters()))

    def step(self, tokens: Tensor, state: Cache) -> Tensor:
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
