"""The Compressive Transformer: a Transformer-XL whose oldest rows are compressed before they are forgotten."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from regard.checks import at_least
from regard.choose import choose
from regard.errors import ConfigError
from regard.inputs import InputTable
from regard.models.interface import Glance
from regard.models.stack import BlockStack
from regard.models.transformer_xl import TransformerXLConfig, nothing_read, read_segment
from regard.nn.compressing import COMPRESSIONS, CompressedMemory, CompressiveCache, Room, reconstruction_loss
from regard.nn.layout import Layout, Ragged
from regard.nn.sight import Once


@dataclass(frozen=True, kw_only=True)
class CompressiveConfig(TransformerXLConfig):
    compressed_memory: int = 512  # compressed rows of each layer, which stand before the memory
    compression_rate: int = 4  # rows that leave the memory and become one compressed row
    compression: str = "convolution"  # how: `convolution`, which is learned, `mean` or `max`
    reconstruction: float = 1.0  # how much the loss of the compression counts; it moves no other weight

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "compressed_memory", "compression_rate")
        choose(COMPRESSIONS, self.compression, "compression")
        if self.reconstruction < 0:
            raise ConfigError(f"reconstruction must not be negative, got {self.reconstruction}")
        if self.attention_window or self.score != "scaled_dot":
            raise ConfigError(
                "compressed rows stand further away than any window reaches: set attention_window = 0; and they are "
                'compared by score = "scaled_dot"'
            )

    @property
    def room(self) -> Room:
        return Room(self.memory, self.compressed_memory, self.compression_rate, segment=self.max_length)

    @property
    def most_kept(self) -> int:
        return 2 * self.room.n_rows  # keys and values, and the rows that they are made of

    @property
    def read_at_once(self) -> int:
        return self.compression_rate * self.compressed_memory + self.memory + self.max_length

    @property
    def allocated_at_once(self) -> bool:
        return True

    def keys_per_row(self, length: int) -> float:
        return super().keys_per_row(length) + self.compressed_memory


class CompressiveTransformer(BlockStack["CompressedMemory | CompressiveCache"]):
    """k, v of block l = [SG(c^(l-1)) ; SG(m^(l-1)) ; h^(l-1)] W,  c = f(the rows that left m)  (Rae et al. 2020)

    Places are counted through all three, as in the paper.  The loss of `penalized_carry` is the paper's attention
    reconstruction.  In writing, a segment is `max_length` tokens.
    """

    config: CompressiveConfig
    can_carry = learns_by_carrying = True

    def __init__(self, config: CompressiveConfig, inputs: InputTable | None = None):
        super().__init__(config, inputs)
        make = COMPRESSIONS[config.compression]
        self.compressions: Sequence[nn.Module] = nn.ModuleList(  # type: ignore[assignment]
            make(config.d_model, config.compression_rate) for _ in range(config.n_layers)
        )

    @property
    def learned_at_once(self) -> int:
        return self.config.max_length

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Texts that fit a segment, in which nothing is compressed yet; of longer ones, one after the other."""
        if layout.longest <= self.config.max_length:
            return super().forward(tokens, layout)
        ends = [0, *layout.lengths.cumsum(0).tolist()]
        return torch.cat([self.read_whole(tokens[begin:end]) for begin, end in pairwise(ends)])

    def read_whole(self, tokens: Tensor) -> Tensor:
        """One text (N) of any length, segment by segment as in writing."""
        parts, state = [], None
        for part in tokens.split(self.config.max_length):
            rows, state = self.carry(part, Ragged([len(part)], tokens.device), state)
            parts.append(rows)
        return torch.cat(parts)

    def glance(self, tokens: Tensor) -> Glance:
        """The last segment, which looks at rows made of several tokens, at its memory and at itself."""
        *before, last = tokens.split(self.config.max_length)
        state = None
        for part in before:
            _, state = self.carry(part, Ragged([len(part)], tokens.device), state)
        begin, layout = len(tokens) - len(last), Ragged([len(last)], tokens.device)
        n_memory, n_compressed = (0, 0) if state is None else (state.layers[0].shape[1], state.compressed[0].shape[1])
        rate, oldest = self.config.compression_rate, begin - n_memory
        made_of = [(oldest - i * rate, oldest - (i - 1) * rate) for i in range(n_compressed, 0, -1)]
        single = [(i, i + 1) for i in range(oldest, len(tokens))]
        return Glance(lambda: self.carry(last, layout, state), begin, [*made_of, *single])

    def carry(
        self, tokens: Tensor, layout: Layout, state: CompressedMemory | CompressiveCache | None
    ) -> tuple[Tensor, CompressedMemory]:
        rows, after, _ = self.read(tokens, layout, state, reconstructs=False)
        return rows, after

    def penalized_carry(
        self, tokens: Tensor, layout: Layout, state: CompressedMemory | CompressiveCache | None
    ) -> tuple[Tensor, CompressedMemory, Tensor]:
        return self.read(tokens, layout, state, reconstructs=self.config.reconstruction > 0)

    def read(
        self, tokens: Tensor, layout: Layout, state: CompressedMemory | CompressiveCache | None, reconstructs: bool
    ) -> tuple[Tensor, CompressedMemory, Tensor]:
        c, room = self.config, self.config.room
        if state is None:
            nothing = nothing_read(self, layout)
            state = CompressedMemory(nothing, nothing, torch.zeros_like(layout.lengths))
        assert isinstance(state, CompressedMemory)
        hidden, inputs = read_segment(self, tokens, layout, state.before)
        layers, compressed, penalty = [], [], hidden.new_zeros(())
        for i, x in enumerate(inputs):
            rows = torch.cat([state.layers[i].to(x.dtype), x.detach()], 1)
            leaving, kept = room.split(rows)
            if leaving.shape[1]:
                new = self.compressions[i](leaving)
                if reconstructs:
                    penalty = penalty + reconstruction_loss(self.blocks[i], x, leaving, new) / c.n_layers
                compressed.append(room.append(state.compressed[i], new.detach()))
            else:
                compressed.append(state.compressed[i])
            layers.append(kept.contiguous())  # without the memory of those that left
        after = CompressedMemory(layers, compressed, state.lengths + layout.longest)
        return hidden, after, c.reconstruction * penalty

    def has_settled(self, state: CompressedMemory | CompressiveCache) -> bool:
        if not isinstance(state, CompressedMemory):
            return False
        n_memory, n_compressed = state.layers[0].shape[1], state.compressed[0].shape[1]
        return n_memory >= self.config.memory and n_compressed == self.config.compressed_memory

    def state_of(self, tensors: dict[str, Tensor]) -> CompressedMemory:
        layers = range(self.config.n_layers)
        memory, compressed = ([tensors[f"{name}.{i}"] for i in layers] for name in ("layer", "compressed"))
        return CompressedMemory(memory, compressed, tensors["lengths"])

    # Decoding: the interface of `regard.decoding.interface`, with hidden rows in place of logits.

    def start(self, n_rows: int, room: int) -> CompressiveCache:
        c = self.config
        like = next(self.parameters()).new_empty(c.d_model)
        return CompressiveCache.empty(c.n_layers, n_rows, c.room, (c.heads.shared, c.heads.width), like)

    def step(self, tokens: Tensor, state: CompressedMemory | CompressiveCache) -> Tensor:
        assert isinstance(state, CompressiveCache)
        parts = []
        while tokens.shape[1]:
            if not state.n_free:
                state.compress(self.compressions, self.blocks)
            part, tokens = tokens[:, : state.n_free], tokens[:, state.n_free :]
            parts.append(self.read_on(part, state))
        return torch.cat(parts, 1)

    def read_on(self, tokens: Tensor, state: CompressedMemory | CompressiveCache) -> Tensor:
        assert isinstance(state, CompressiveCache)
        n = tokens.shape[1]
        layout, sight = state.queries(n), Once(self.config.sight)
        x = self.embed(tokens, layout)
        for i, block in enumerate(self.blocks):
            x = block(x, layout, sight, past=state.layer(i, x))
        state.advance(n)
        return self.norm(x)
