"""A stack of Transformer blocks over one sequence.  With a causal sight it is GPT's, without it BERT's."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, cast

import torch
from torch import Tensor, nn

from regard.checks import at_least, at_most, not_negative
from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable, words_or
from regard.models.interface import Glance, Reader
from regard.models.transformer import TransformerConfig, initialize, initialize_small
from regard.nn.attention import Attention, MultiHeadAttention
from regard.nn.blocks import EncoderBlock
from regard.nn.cache import Cache
from regard.nn.hashing import HashedAttention, Hashing
from regard.nn.layout import Layout
from regard.nn.linear import Linear, as_computed, n_weights
from regard.nn.norms import NORMS
from regard.nn.positions import Position, Space, make_position
from regard.nn.reversible import through
from regard.nn.rolling import RollingCache
from regard.nn.sight import Once, Sight, causal, everywhere, global_tokens, window
from regard.nn.state import S

RELATIVE = ("rotary", "alibi", "buckets", "none")  # positions that see distances, wherever a row stands
ENDLESS = 1_000_000  # tokens of a text that has no limit: a number that few texts reach
READ_AT_ONCE = 256  # rows, or as many as a window has, of a text that is longer than what is kept of it


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
    # no token attends to later ones: needed to write text; with hash_rounds, which rows meet may depend on later ones
    causal: bool = True
    n_segments: int = 0  # a learned vector for each of this many parts of a sequence (BERT's two sentences); 0: none
    separator: int = 2  # the token that ends a segment; 2 is </s>
    d_embedding: int = 0  # width of embeddings and positions, which a product then widens (ELECTRA); 0: d_model
    attention_window: int = 0  # a row attends to rows at most this far away (Longformer, ETC); 0: to all
    global_rows: int = 0  # with a window: the first rows attend to all, and all attend to them
    # a row attends to rows with the same hash, in so many rounds of hashing, 64 at most (Reformer); 0: to all
    hash_rounds: int = 0
    hash_chunk: int = 64  # with hash_rounds: sorted rows that are compared at once; buckets are as large on average
    # two streams of rows whose values are computed again in the backward pass, not kept: memory does not grow with the
    # layers (Reformer); needs pre_norm = true and dropout = 0
    reversible: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        at_most(self, 64, "hash_rounds")
        not_negative(self, "n_segments", "d_embedding", "separator", "attention_window", "global_rows", "hash_rounds")
        at_least(self, 1, "hash_chunk")
        if self.hash_rounds and (
            self.score != "scaled_dot" or self.position in ("alibi", "buckets") or self.n_key_heads or self.norm_heads
        ):
            raise ConfigError(
                'hashing makes queries and keys by one product: it needs score = "scaled_dot", no n_key_heads or '
                "norm_heads, and a position that adds nothing to the scores"
            )
        if self.global_rows and not self.attention_window:
            raise ConfigError("without attention_window all rows are global: set it, or global_rows = 0")

        if self.reversible and (self.dropout or not self.pre_norm):
            raise ConfigError("reversible = true needs pre_norm = true and dropout = 0: rows are computed again")

    @property
    def sight(self) -> Sight:
        """Who may look at whom."""
        whole = causal if self.causal else everywhere
        if not self.attention_window:
            return whole
        near = window(self.attention_window)
        return whole & (near | global_tokens(self.global_rows) if self.global_rows else near)

    @property
    def sees_distances(self) -> bool:
        """Whether what a row sees of others does not depend on where in a text they stand."""
        return self.position in RELATIVE and self.rotary_scaling != "dynamic" and self.score != "location"

    @property
    def is_endless(self) -> bool:
        """Whether a text can go on past `max_length`: a row looks back so far and no further.  ALiBi would need to know
        how far away global rows are by then."""
        forgets = self.causal and (self.attention_window or self.hash_rounds) and not self.n_segments
        return bool(forgets and self.sees_distances and not (self.global_rows and self.position == "alibi"))

    @property
    def farthest(self) -> int:
        """How far back a row of an endless text may look, but for global rows."""
        return self.attention_window or self.max_length

    @property
    def n_kept(self) -> int:
        """Rows of an endless text that are kept at least."""
        return max(self.farthest, min(self.max_length, READ_AT_ONCE))

    @property
    def read_at_once(self) -> int:
        return self.max_length

    @property
    def longest_text(self) -> int:
        return ENDLESS if self.is_endless else super().longest_text

    @property
    def most_kept(self) -> int:
        return self.global_rows + 2 * self.n_kept if self.is_endless else super().most_kept

    def space(self, one_sided: bool) -> Space:
        return replace(super().space(one_sided), n_global=self.global_rows, endless=self.is_endless)

    @property
    def is_plain(self) -> bool:
        return not (self.attention_window or self.hash_rounds or self.reversible)

    def make_attention(self, position: Position) -> MultiHeadAttention:
        if not self.hash_rounds:
            return super().make_attention(position)
        n_buckets = 2 * max(1, round(self.max_length / self.hash_chunk / 2))
        hashing = Hashing(self.hash_rounds, n_buckets, self.hash_chunk)
        return HashedAttention(self.heads, self.score, position, hashing)

    def keys_per_row(self, length: int) -> float:
        """That a row of a sequence of `length` attends to, on average."""
        sides = 1 if self.causal else 2
        seen = length * sides / 2
        if self.attention_window:
            seen = min(seen, sides * self.attention_window + 1 + 2 * self.global_rows)
        return seen

    @property
    def embedding_width(self) -> int:
        return self.d_embedding or self.d_model


class BlockStack(Reader[S], Generic[S]):
    """h_0 = embedding + position; h_l = block_l(h_(l-1))  (Radford et al. 2018, eq. 2; Devlin et al. 2019)

    It reads words, or what another input table makes rows of.
    """

    config: StackConfig
    blocks: Sequence[EncoderBlock]

    def __init__(self, config: StackConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
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
                if name.endswith(("to_output.weight", "contract.weight")) and not parameter.is_meta:
                    nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * c.n_layers))

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        x, sight = self.embed(tokens, layout), self.sight
        if self.config.reversible:
            return self.norm(through(self.blocks, x, layout, sight))
        for block in self.blocks:
            x = block(x, layout, sight)
        return self.norm(x)

    @property
    def sight(self) -> Sight:
        """The rule for one pass through the blocks, whose masks are made once where a path may need some."""
        c = self.config
        return Once(c.sight) if c.attention_window or self.position.has_bias else c.sight

    def glance(self, tokens: Tensor) -> Glance:
        """The last `max_length` tokens or fewer of a text without end, which looks at what is kept in writing."""
        c = self.config
        begin = max(0, len(tokens) - 1) // c.max_length * c.max_length
        if not (c.is_endless and begin):
            return super().glance(tokens)
        cache = self.rolling_cache(1, begin + c.max_length, max(c.n_kept, c.max_length))
        state = cast(S, cache)
        self.step(tokens[None, :begin], state)
        cache.keep(c.farthest)
        places = [*range(c.global_rows), *range(c.global_rows + int(cache.starts), len(tokens))]
        return Glance(lambda: self.read_on(tokens[None, begin:], state), begin, [(i, i + 1) for i in places])

    def rolling_cache(self, n_rows: int, room: int, n_kept: int) -> RollingCache:
        c, like = self.config, next(self.parameters())
        heads = c.heads.shared, c.heads.width
        return RollingCache.empty(c.n_layers, n_rows, room, n_kept, heads, like, n_first=c.global_rows)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embedding(tokens, layout)
        if self.segment is not None:
            x = x + self.segment(self.segments(tokens, layout))
        x = self.position.embed(x, layout.positions)
        return self.widen(as_computed(self.dropout(self.embedding_norm(x))))

    def segments(self, tokens: Tensor, layout: Layout) -> Tensor:
        return count_separators(tokens, layout, self.config.separator, self.config.n_segments)

    def read_on(self, tokens: Tensor, state: S) -> Tensor:
        """`step`, in one pass: the state has room for these tokens."""
        raise RegardError("this model reads whole texts and cannot write")

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        for i, block in enumerate(self.blocks):
            yield "self", i, block.attention

    def multiplications(self, length: int) -> float:
        n_keys = self.config.keys_per_row(length)
        return n_weights(self.widen) + sum(block.multiplications(n_keys) for block in self.blocks)


class Stack(BlockStack["Cache | RollingCache"]):
    """A stack whose cache keeps all that it has read; or, where no row looks further back, what came last."""

    is_recordable = is_exportable = takes_inputs = True

    def __init__(self, config: StackConfig, inputs: InputTable | None = None):
        super().__init__(config, inputs)
        # Hashing compares all that was written, a dynamic turning depends on how much that is, and rows that are
        # dropped do not come back.
        self.is_capturable = not (config.hash_rounds or self.sees_length or config.is_endless)
        self.can_forget = not config.is_endless

    def start(self, n_rows: int, room: int) -> Cache | RollingCache:
        if not self.config.causal:
            raise RegardError("this stack looks at the future, so it cannot write; train with causal = true")
        if room > self.max_length:
            raise RegardError(f"{room} tokens do not fit the model's {self.max_length}; ask for fewer")
        c = self.config
        if c.is_endless:
            return self.rolling_cache(n_rows, room, c.n_kept)
        return Cache.empty(c.n_layers, n_rows, room, (c.heads.shared, c.heads.width), next(self.parameters()))

    def step(self, tokens: Tensor, state: Cache | RollingCache) -> Tensor:
        c = self.config
        at_once = min(c.n_kept, max(c.attention_window, READ_AT_ONCE)) if c.is_endless else tokens.shape[1]
        return torch.cat([self.read_on(part, state) for part in tokens.split(at_once, 1)], 1)

    def read_on(self, tokens: Tensor, state: Cache | RollingCache) -> Tensor:
        n = tokens.shape[1]
        state.make_room(n)
        layout, sight = state.queries(n), self.sight
        if self.config.is_endless and not self.config.attention_window:
            sight = sight & window(self.config.max_length)  # what is found does not depend on when rows are dropped
        x = self.embed(tokens, layout)
        other = x
        for i, block in enumerate(self.blocks):
            if self.config.reversible:
                other, x = block.couple(other, x, layout, sight, past=state.layer(i))
            else:
                x = block(x, layout, sight, past=state.layer(i))
        state.advance(n)
        return self.norm((other + x) / 2 if self.config.reversible else x)


def count_separators(tokens: Tensor, layout: Layout, separator: int, n_segments: int) -> Tensor:
    """The segment of each token: how many separators stand before it in its sequence; the last segment has no end."""
    ends = layout.pad((tokens == separator).long())
    return layout.flatten(ends.cumsum(1) - ends).clamp(max=max(n_segments - 1, 0))
