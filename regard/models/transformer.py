"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import above, at_least, not_negative, positive, share
from regard.choose import choose
from regard.errors import ConfigError
from regard.inputs import InputTable, Words
from regard.models.config import ModelConfig
from regard.models.cost import Cost, translator_cost
from regard.models.interface import Translator
from regard.nn.attention import BIASES, Attention, Heads, MultiHeadAttention
from regard.nn.blocks import FEED_FORWARDS, DecoderBlock, EncoderBlock, Residual
from regard.nn.cache import Cache, TranslatorState
from regard.nn.layout import Layout, Prompt
from regard.nn.linear import as_computed, logits
from regard.nn.norms import NORMS
from regard.nn.positions import POSITIONS, Position, Space, make_position
from regard.nn.scores import SCORES
from regard.nn.sight import causal, everywhere
from regard.nn.turning import Turning


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The defaults are the paper's base model (table 3)."""

    d_model: int = 512  # width of the hidden states and embeddings; a multiple of n_heads
    n_heads: int = 8  # heads of each attention; each has `d_model / n_heads` channels
    n_layers: int = 6  # layers of the encoder, and as many of the decoder
    d_ff: int = 2048  # width inside the feed-forward networks
    dropout: float = 0.1  # on the embeddings and on the output of each sublayer
    max_length: int = 1024  # positions that the model knows; at least data.max_length + 1, and room for what is written
    score: str = "scaled_dot"  # of every attention: `scaled_dot`, `dot`, `general`, `additive`, `cosine` or `location`
    # `sinusoidal`, `sinusoidal_halves`, `learned`, `rotary`, `alibi`, `buckets`, `none`; to compare: `index`, `binary`
    position: str = "sinusoidal"
    norm: str = "layer"  # `layer` (LayerNorm) or `rms` (RMSNorm)
    # `relu` (the paper), `gelu` (BERT), `gelu_tanh` (GPT), `swish` (Marian), `swiglu` (Llama) or `geglu` (T5 v1.1)
    feed_forward: str = "relu"
    pre_norm: bool = False  # a norm before each sublayer and at the end of a stack; `false`: after each (the paper)
    # What later models changed, by name of the one that did; the defaults are the paper's.
    n_key_heads: int = 0  # heads of keys and values, each for equally many of queries (Llama); 0: as many as n_heads
    d_head: int = 0  # channels of a head (T5, Qwen3); 0: `d_model / n_heads`
    # in which products: `all`, `inputs` (to queries, keys and values; Qwen2), `outputs` (all others) or `none` (Llama)
    bias: str = "all"
    norm_heads: bool = False  # an RMS norm on every query and key (Qwen3)
    norm_eps: float = 1e-5  # added to the variance in the norms
    rotary_base: float = 10000.0  # of rotary positions: a larger one turns slower
    # of rotary positions, for texts longer than in the first training: `none`, `linear`, `dynamic`, `llama3`, `yarn`
    rotary_scaling: str = "none"
    rotary_factor: float = 1.0  # by which texts have become longer since the first training
    rotary_length: int = 0  # tokens of the longest text of the first training; 0: max_length
    # pairs of channels that turn less often than this in such a text are slowed by the factor (`llama3`, `yarn`)
    rotary_slow: float = 1.0
    rotary_fast: float = 32.0  # those that turn more often than this are not slowed; between the two it is a mixture
    rotary_gain: float = 0.0  # factor of queries and keys; 0: as the scaling says, which is 1 for all but `yarn`
    n_buckets: int = 32  # of distances, for `position = "buckets"` (T5)
    furthest: int = 128  # the distance from which on all share one bucket
    scale_embedding: bool = True  # embeddings times `√d_model`; `false` also begins with smaller weights (GPT, BERT)
    embedding_norm: bool = False  # a norm on embeddings with their positions (BERT, BART)
    tied: bool = True  # the output table is the embeddings
    output_bias: bool = False  # one more learned number for each word (BART, Marian); readers leave it to their head

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_length")
        share(self, "dropout")
        not_negative(self, "n_key_heads", "d_head")
        positive(self, "norm_eps")
        above(self, 1, "rotary_base")
        at_least(self, 1, "rotary_factor")
        positive(self, "rotary_slow", "rotary_fast")
        not_negative(self, "rotary_length", "rotary_gain")
        at_least(self, 4, "n_buckets")
        at_least(self, self.n_buckets, "furthest")
        if self.position == "rotary" and self.heads.width % 2:
            raise ConfigError(f"rotary positions turn pairs: the width of a head must be even, got {self.heads.width}")
        if self.rotary_scaling != "none" and self.position != "rotary":
            raise ConfigError(f'rotary_scaling needs position = "rotary", got {self.position!r}')
        self.turning.check(self.heads.width)
        choose(SCORES, self.score, "attention score")
        choose(POSITIONS, self.position, "position encoding")
        choose(NORMS, self.norm, "norm")
        choose(FEED_FORWARDS, self.feed_forward, "feed-forward net")

    @property
    def heads(self) -> Heads:
        norm_eps = self.norm_eps if self.norm_heads else None
        return Heads(self.d_model, self.n_heads, self.n_key_heads, self.d_head, self.bias, norm_eps)

    @property
    def kept_per_token(self) -> int:
        return 2 * self.n_layers * self.heads.shared * self.heads.width  # keys and values

    @property
    def turning(self) -> Turning:
        return Turning(
            base=self.rotary_base,
            scaling=self.rotary_scaling,
            factor=self.rotary_factor,
            length=self.rotary_length or self.max_length,
            slow=self.rotary_slow,
            fast=self.rotary_fast,
            gain=self.rotary_gain,
        )

    @property
    def steady_length(self) -> int:
        return min(self.max_length, self.turning.length) if self.turning.sees_length else self.max_length

    def space(self, one_sided: bool) -> Space:
        encoding = self.turning, self.n_buckets, self.furthest
        return Space(self.d_model, self.n_heads, self.max_length, self.heads.width, *encoding, one_sided)

    def source_space(self) -> Space:
        return self.space(one_sided=False)

    def make_norm(self) -> nn.Module:
        return NORMS[self.norm](self.d_model, self.norm_eps)

    def make_attention(self, position: Position) -> MultiHeadAttention:
        return MultiHeadAttention(self.heads, self.score, position)

    def make_feed_forward(self) -> nn.Module:
        return FEED_FORWARDS[self.feed_forward](self.d_model, self.d_ff, BIASES[self.bias][1])

    def make_residual(self) -> Residual:
        return Residual(self.make_norm(), self.dropout, self.pre_norm)


class Transformer(Translator[TranslatorState[Cache]]):
    """One vocabulary for source and target, tied with the output layer (section 3.4).

    With other settings it is BART (Lewis et al. 2020), T5 (Raffel et al. 2020) or Marian.  The source is words, or what
    another input table makes rows of.
    """

    config: TransformerConfig
    embedding: Words
    encoder: Sequence[EncoderBlock]
    decoder: Sequence[DecoderBlock]
    is_capturable = True
    is_recordable = is_exportable = True
    sees_future = True  # the encoder, whose rows are its features

    def __init__(self, config: TransformerConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
        self.source_position = make_position(c.position, c.source_space())
        self.target_position = make_position(c.position, c.space(one_sided=True))
        self.can_forget = not self.target_position.sees_length
        nowhere = Position(c.source_space())  # across two sequences places do not compare
        self.embedding = Words(c.vocab_size, c.d_model, math.sqrt(c.d_model) if c.scale_embedding else 1.0)
        self.source_inputs = inputs  # None: words
        self.source_norm = c.make_norm() if c.embedding_norm else nn.Identity()
        self.target_norm = c.make_norm() if c.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(c.make_attention(self.source_position), c.make_feed_forward(), c.make_residual)
            for _ in range(c.n_layers)
        )
        self.decoder = nn.ModuleList(  # type: ignore[assignment]
            DecoderBlock(
                c.make_attention(self.target_position),
                c.make_attention(nowhere),
                c.make_feed_forward(),
                c.make_residual,
            )
            for _ in range(c.n_layers)
        )
        # A pre-norm stack ends without a norm, so it needs one more.
        self.encoder_norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.decoder_norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.own_table = None if c.tied else nn.Parameter(torch.randn(c.vocab_size, c.d_model) * c.d_model**-0.5)
        self.output_bias = nn.Parameter(torch.zeros(c.vocab_size)) if c.output_bias else None
        self.apply(initialize if c.scale_embedding else initialize_small)

    def forward(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        memory = self.encode(source, source_layout)
        x = self.embed_target(target, target_layout)
        for block in self.decoder:
            source_memory = block.cross_attention.remember(memory, source_layout)
            x = block(x, target_layout, causal, source_memory, across=target_layout)
        return self.decoder_norm(x)

    @property
    def inputs(self) -> InputTable:
        return self.embedding if self.source_inputs is None else self.source_inputs

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        x = self.source_position.embed(self.inputs(source, layout), layout.positions)
        x = as_computed(self.dropout(self.source_norm(x)))
        for block in self.encoder:
            x = block(x, layout, everywhere)
        return self.encoder_norm(x)

    def embed_target(self, target: Tensor, layout: Layout) -> Tensor:
        x = self.target_position.embed(self.embedding(target, layout), layout.positions)
        return as_computed(self.dropout(self.target_norm(x)))

    def logits(self, hidden: Tensor) -> Tensor:
        return logits(hidden, self.output_table, self.output_bias)

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        for i, encoder_block in enumerate(self.encoder):
            yield "encoder", i, encoder_block.attention
        for i, decoder_block in enumerate(self.decoder):
            yield "decoder", i, decoder_block.attention
            yield "cross", i, decoder_block.cross_attention

    def cost(self, length: int) -> Cost:
        """A target token has its share of the source; where both sides have `length` tokens, one of them."""
        n_source = self.n_source_rows(length)
        n_made = n_source / length
        encoding = self.inputs.multiplications() + sum(block.multiplications(n_source) for block in self.encoder)
        # On average half the past.
        decoding = sum(block.multiplications(length / 2, n_source, n_made) for block in self.decoder)
        n_products = self.decoder[0].cross_attention.attend.score.n_products
        products = n_made * encoding + decoding + self.output_table.numel()
        return translator_cost(products, n_products, n_source, length)

    # Decoding: the interface of `regard.decoding.interface`.

    def start(
        self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int | None = None
    ) -> tuple[TranslatorState[Cache], Tensor]:
        sources, layout = self.inputs.join(prompts, self.device)
        memory = self.encode(sources, layout)
        memories = [block.cross_attention.remember(memory, layout) for block in self.decoder]
        c, room = self.config, self.max_length if room is None else room
        heads = c.heads.shared, c.heads.width
        own = Cache.empty(c.n_layers, len(prompts), room, heads, like=memory)
        state = TranslatorState(own, Cache.holding(memories), 1)
        first = self.first_logits(begin, state)
        state.spread(copies)
        return state, first

    def step(self, tokens: Tensor, state: TranslatorState[Cache]) -> Tensor:
        n = tokens.shape[1]
        layout, across = state.own.queries(n), state.across(n)
        x = self.embed_target(tokens, layout)
        for i, block in enumerate(self.decoder):
            x = block(x, layout, causal, state.source.memory(i), across, past=state.own.layer(i))
        state.own.advance(n)
        return self.logits(self.decoder_norm(x))


def is_sketch(module: nn.Module) -> bool:
    """Whether it has shapes alone, on the meta device, where drawing no numbers takes longer than all the rest."""
    return isinstance(module, nn.Linear | nn.Embedding) and module.weight.is_meta


def initialize(module: nn.Module) -> None:
    """Xavier for the matrices (as the authors' code), and embeddings of unit size once scaled by sqrt(d_model)."""
    if is_sketch(module):
        return
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def initialize_small(module: nn.Module) -> None:
    """Everything from a normal distribution of 0.02, as GPT and BERT begin."""
    if is_sketch(module):
        return
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
