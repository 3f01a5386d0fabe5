"""The encoder-decoder Transformer over steps: it reads the past, then writes the future one step after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.forecaster import Forecaster, ForecasterConfig, LookWeights
from regard.models.patch_series import NumberRows, rectangle
from regard.models.transformer import TransformerConfig, initialize
from regard.nn.attention import Attention, Memory
from regard.nn.blocks import DecoderBlock, EncoderBlock
from regard.nn.cache import Cache
from regard.nn.layout import Layout
from regard.nn.linear import Linear, n_weights
from regard.nn.positions import Position, make_position
from regard.nn.sight import causal, everywhere


@dataclass(frozen=True, kw_only=True)
class TransformerSeriesConfig(ForecasterConfig, TransformerConfig):
    """The settings of a Transformer, in a small size; `max_length` counts steps."""

    look_back: int = 96
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2  # layers of the encoder, and as many of the decoder
    d_ff: int = 128

    def __post_init__(self) -> None:
        TransformerConfig.__post_init__(self)
        ForecasterConfig.__post_init__(self)
        if max(self.look_back, self.horizon) > self.max_length:
            raise ConfigError(f"look_back = {self.look_back} and horizon = {self.horizon}: raise max_length")


class TransformerSeries(Forecaster):
    """y_h = W_o decoder(y_(h-1), known_h | encoder(x_1 .. x_L)) + b, where y_0 = x_L  (Vaswani et al. 2017)

    Each step reads the forecast of the last, in training its true value (teacher forcing).
    """

    config: TransformerSeriesConfig
    encoder: Sequence[EncoderBlock]
    decoder: Sequence[DecoderBlock]

    def __init__(self, config: TransformerSeriesConfig):
        super().__init__(config)
        c = config
        self.source_position = make_position(c.position, c.source_space())
        self.target_position = make_position(c.position, c.space(one_sided=True))
        nowhere = Position(c.source_space())  # across two sequences places do not compare
        self.of_past = NumberRows(c.n_columns + c.n_seen + c.n_known, c.d_model)
        self.of_future = NumberRows(c.n_columns + c.n_known, c.d_model)
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
        self.encoder_norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.decoder_norm = c.make_norm() if c.pre_norm else nn.Identity()
        self.to_values = Linear(c.d_model, c.n_columns * c.n_outputs)
        self.apply(initialize)

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        form = self.form
        memories = self.encode(torch.cat([past, features[:, : form.look_back]], -1))
        first, known = past[:, -1:, : form.n_columns], features[:, form.look_back :]
        if future is not None:
            return self.decode(torch.cat([first, future[:, :-1]], 1), known, memories)
        return self.write(first, known, memories)

    def encode(self, steps: Tensor) -> list[Memory]:
        layout = rectangle(steps)
        x = self.dropout(self.source_position.embed(self.of_past(steps, layout), layout.positions))
        for block in self.encoder:
            x = block(x, layout, everywhere)
        x = self.encoder_norm(x)
        return [block.cross_attention.remember(x, layout) for block in self.decoder]

    def decode(self, before: Tensor, known: Tensor, memories: list[Memory], cache: Cache | None = None) -> Tensor:
        """The values before each step (B, n, C), and what is known of it -> its forecast (B, n, C, outputs)."""
        steps = torch.cat([before, known], -1)
        layout: Layout = rectangle(steps) if cache is None else cache.queries(steps.shape[1])
        x = self.dropout(self.target_position.embed(self.of_future(steps, layout), layout.positions))
        for i, (block, memory) in enumerate(zip(self.decoder, memories, strict=True)):
            x = block(x, layout, causal, memory, across=rectangle(x), past=None if cache is None else cache.layer(i))
        return self.to_values(self.decoder_norm(x)).unflatten(-1, (self.form.n_columns, self.form.n_outputs))

    def write(self, first: Tensor, known: Tensor, memories: list[Memory]) -> Tensor:
        """One step after the other; keys and values of those before are kept."""
        c, before, outputs = self.config, first, []
        heads = c.heads.shared, c.heads.width
        cache = Cache.empty(c.n_layers, len(first), c.horizon, heads, like=memories[0].keys)
        for step in range(c.horizon):
            outputs.append(self.decode(before, known[:, step : step + 1], memories, cache))
            cache.advance(1)
            before = outputs[-1][..., 0].to(first.dtype)
        return torch.cat(outputs, 1)

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        for i, encoder_block in enumerate(self.encoder):
            yield "encoder", i, encoder_block.attention
        for i, decoder_block in enumerate(self.decoder):
            yield "decoder", i, decoder_block.attention
            yield "cross", i, decoder_block.cross_attention

    def looks(self, past: list[str], ahead: list[str], columns: list[str]) -> dict[str, LookWeights]:
        kinds = {"encoder": ("past", past, past), "decoder": ("future", ahead, ahead), "cross": ("across", ahead, past)}
        return {name: LookWeights(*names) for name, names in kinds.items()}

    def multiplications(self) -> float:
        form = self.form
        of_past = self.of_past.multiplications() + sum(block.multiplications(form.look_back) for block in self.encoder)
        n_made = form.look_back / form.horizon
        blocks = sum(block.multiplications(form.horizon / 2, form.look_back, n_made) for block in self.decoder)
        of_future = self.of_future.multiplications() + blocks + n_weights(self.to_values)
        return form.look_back * of_past + form.horizon * of_future
