"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017)."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.choose import choose
from regard.errors import ConfigError
from regard.models.translator import TranslatorState
from regard.nn.attention import MultiHeadAttention
from regard.nn.blocks import FEED_FORWARDS, NORMS, DecoderBlock, EncoderBlock, Residual
from regard.nn.cache import Cache
from regard.nn.layout import Layout, Ragged
from regard.nn.linear import logits
from regard.nn.positions import POSITIONS, Position
from regard.nn.scores import SCORES
from regard.nn.sight import causal, everywhere


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The defaults are the paper's base model (table 3)."""

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8
    n_layers: int = 6  # of the encoder, and of the decoder
    d_ff: int = 2048
    dropout: float = 0.1
    max_length: int = 1024
    score: str = "scaled_dot"
    position: str = "sinusoidal"
    norm: str = "layer"
    feed_forward: str = "relu"
    pre_norm: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be from 0 up to, not including, 1, got {self.dropout}")
        if self.d_model % self.n_heads:
            raise ConfigError(f"d_model ({self.d_model}) must be a multiple of n_heads ({self.n_heads})")
        if self.position == "rotary" and self.d_model // self.n_heads % 2:
            raise ConfigError(
                f"rotary positions turn pairs: d_model / n_heads must be even, got {self.d_model} / {self.n_heads}"
            )
        choose(SCORES, self.score, "attention score")
        choose(POSITIONS, self.position, "position encoding")
        choose(NORMS, self.norm, "norm")
        choose(FEED_FORWARDS, self.feed_forward, "feed-forward net")


class Transformer(nn.Module):
    """One vocabulary for source and target, tied with the output layer (section 3.4)."""

    is_capturable = True  # by CUDA graphs: the tensors of a state stay in place
    encoder: Sequence[EncoderBlock]
    decoder: Sequence[DecoderBlock]

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = c = config
        self.position = POSITIONS[c.position](c.d_model, c.n_heads, c.max_length)
        nowhere = Position(c.d_model, c.n_heads, c.max_length)  # across two sequences places do not compare
        norm = NORMS[c.norm]
        feed_forward = FEED_FORWARDS[c.feed_forward]

        def attention(position: Position) -> MultiHeadAttention:
            return MultiHeadAttention(c.d_model, c.n_heads, c.score, position)

        def residual() -> Residual:
            return Residual(norm(c.d_model), c.dropout, c.pre_norm)

        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.dropout = nn.Dropout(c.dropout)
        self.encoder = nn.ModuleList(  # type: ignore[assignment]
            EncoderBlock(attention(self.position), feed_forward(c.d_model, c.d_ff), residual) for _ in range(c.n_layers)
        )
        self.decoder = nn.ModuleList(  # type: ignore[assignment]
            DecoderBlock(attention(self.position), attention(nowhere), feed_forward(c.d_model, c.d_ff), residual)
            for _ in range(c.n_layers)
        )
        # A pre-norm stack ends without a norm, so it needs one more.
        self.encoder_norm = norm(c.d_model) if c.pre_norm else nn.Identity()
        self.decoder_norm = norm(c.d_model) if c.pre_norm else nn.Identity()
        self.apply(initialise)

    def forward(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        """Token ids (N) of both sides -> the hidden state behind each next target token (N, D)."""
        memory = self.encode(source, source_layout)
        x = self.embed(target, target_layout)
        for block in self.decoder:
            x = block(
                x,
                target_layout,
                causal,
                memory=block.cross_attention.remember(memory, source_layout),
                across=target_layout,
            )
        return self.decoder_norm(x)

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        x = self.embed(source, layout)
        for block in self.encoder:
            x = block(x, layout, everywhere)
        return self.encoder_norm(x)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        return self.dropout(self.position.embed(x, layout.positions))

    def logits(self, hidden: Tensor) -> Tensor:
        return logits(hidden, self.output_table)

    @property
    def output_table(self) -> Tensor:
        """(V, D): the embeddings again."""
        return self.embedding.weight

    def attentions(self) -> Iterator[tuple[str, int, MultiHeadAttention]]:
        for i, encoder_block in enumerate(self.encoder):
            yield "encoder", i, encoder_block.attention
        for i, decoder_block in enumerate(self.decoder):
            yield "decoder", i, decoder_block.attention
            yield "cross", i, decoder_block.cross_attention

    # Decoding: the interface of `regard.decoding.interface`.

    def start(
        self,
        prompts: Sequence[Sequence[int]],
        copies: int = 1,
        room: int | None = None,
        fixed_room: int | None = None,
    ) -> "TransformerState":
        """Read the sources; every source then has `copies` rows that write their own target and share its memory.

        With `fixed_room` for the sources every step has one shape (see `Cache`), as a CUDA graph needs it.
        """
        device = self.embedding.weight.device
        layout = Ragged([len(p) for p in prompts], device)
        tokens = torch.tensor([t for prompt in prompts for t in prompt], dtype=torch.long, device=device)
        memory = self.encode(tokens, layout)
        memories = [block.cross_attention.remember(memory, layout) for block in self.decoder]
        source = Cache.holding(memories, fixed_room)
        own = Cache.empty(
            self.config.n_layers,
            len(prompts),
            self.config.max_length if room is None else room,
            self.config.n_heads,
            like=memory,
            fixed=fixed_room is not None,
        )
        state = TransformerState(own, source, copies)
        if memory.is_cuda:  # where rows are cheap, and to compare tokens would make the host wait
            state.part()
        return state

    def step(self, tokens: Tensor, state: "TransformerState") -> Tensor:
        """The next tokens of each row (rows, n) -> the logits after each of them (rows, n, V)."""
        if state.is_shared:
            if state.are_alike(tokens):
                first = self.step_rows(tokens[:: state.copies], state)
                state.part()
                return first.repeat_interleave(state.copies, 0)
            state.part()
        return self.step_rows(tokens, state)

    def step_rows(self, tokens: Tensor, state: "TransformerState") -> Tensor:
        n = tokens.shape[1]
        layout, across = state.own.queries(n), state.across(n)
        x = self.embed(tokens, layout)
        for i, block in enumerate(self.decoder):
            x = block(x, layout, causal, state.source.memory(i), across, past=state.own.layer(i))
        state.own.advance(n)
        return self.logits(self.decoder_norm(x))


class TransformerState(TranslatorState[Cache]):
    """A state that can move into a CUDA graph's memory, and out of it."""

    def copy_(self, other: "TransformerState") -> None:
        """Take over another state of the same shape, in place."""
        self.own.copy_(other.own)
        self.source.copy_(other.source)

    def clone(self) -> "TransformerState":
        return TransformerState(self.own.clone(), self.source.clone(), self.copies)


def initialise(module: nn.Module) -> None:
    """Xavier for the matrices (as the authors' code), and embeddings of unit size once scaled by sqrt(d_model)."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
