"""Transformer-XL: a stack that remembers the segments before the one it reads (Dai et al. 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks import at_least
from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable
from regard.models.stack import RELATIVE, BlockStack, StackConfig
from regard.nn.layout import Layout
from regard.nn.linear import as_computed
from regard.nn.rolling import RollingCache, SegmentMemory, full, last_rows
from regard.nn.sight import Once, Sight, window


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig(StackConfig):
    # rows of each layer that are kept, without gradients, for the window that comes next (with task.carry = true); a
    # text that is written has no longest length, and each of its tokens attends to so many before it
    memory: int = 512
    position: str = "rotary"  # one that sees distances: `rotary`, `alibi`, `buckets` or `none`
    max_length: int = 1024  # tokens of a text, whatever its length, that are read at once

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "memory")
        if not self.sees_distances:
            raise ConfigError(
                f"a memory moves away as a text goes on: it needs a position of {', '.join(RELATIVE)}, got "
                f"{self.position!r}; and neither rotary_scaling = 'dynamic' nor score = 'location'"
            )
        if not self.causal or self.global_rows or self.n_segments or self.reversible or self.hash_rounds:
            raise ConfigError("a memory needs causal = true, and no global_rows, n_segments, hash_rounds or reversible")

    @property
    def is_plain(self) -> bool:
        return False

    @property
    def is_endless(self) -> bool:
        return True

    @property
    def farthest(self) -> int:
        return self.memory

    @property
    def n_kept(self) -> int:
        return self.memory

    @property
    def read_at_once(self) -> int:
        return self.memory + self.max_length

    def keys_per_row(self, length: int) -> float:
        return super().keys_per_row(length) + self.memory


class TransformerXL(BlockStack["SegmentMemory | RollingCache"]):
    """k, v of block l = [SG(m^(l-1)) ; h^(l-1)] W,  where m are the rows that it read in segments before
    (Dai et al. 2019, section 3.2)

    Positions are any that see distances, in place of the paper's own.  From window to window rows are kept; in writing
    their keys and values, from step to step.
    """

    config: TransformerXLConfig
    can_carry = True

    def __init__(self, config: TransformerXLConfig, inputs: InputTable | None = None):
        super().__init__(config, inputs)

    @property
    def sight(self) -> Sight:
        """As in writing, a row of one long text looks `memory` rows back."""
        return Once(self.config.sight & window(self.config.memory))

    def carry(
        self, tokens: Tensor, layout: Layout, state: SegmentMemory | RollingCache | None
    ) -> tuple[Tensor, SegmentMemory]:
        if state is None:
            state = SegmentMemory(nothing_read(self, layout), torch.zeros_like(layout.lengths))
        assert isinstance(state, SegmentMemory)
        hidden, inputs = read_segment(self, tokens, layout, state.layers)
        layers = zip(state.layers, inputs, strict=True)
        kept = [last_rows(rows, x.detach(), self.config.memory) for rows, x in layers]
        return hidden, SegmentMemory(kept, state.lengths + layout.longest)

    def has_settled(self, state: SegmentMemory | RollingCache) -> bool:
        return isinstance(state, SegmentMemory) and state.layers[0].shape[1] == self.config.memory

    def state_of(self, tensors: dict[str, Tensor]) -> SegmentMemory:
        return SegmentMemory([tensors[f"layer.{i}"] for i in range(self.config.n_layers)], tensors["lengths"])

    # Decoding: the interface of `regard.decoding.interface`, with hidden rows in place of logits.

    def start(self, n_rows: int, room: int) -> RollingCache:
        return self.rolling_cache(n_rows, room, self.config.memory)

    def step(self, tokens: Tensor, state: SegmentMemory | RollingCache) -> Tensor:
        parts = tokens.split(min(self.config.memory, self.config.max_length), 1)
        return torch.cat([self.read_on(part, state) for part in parts], 1)

    def read_on(self, tokens: Tensor, state: SegmentMemory | RollingCache) -> Tensor:
        assert isinstance(state, RollingCache)
        n = tokens.shape[1]
        state.make_room(n)
        layout, sight = state.queries(n), self.sight
        x = self.embed(tokens, layout)
        for i, block in enumerate(self.blocks):
            x = block(x, layout, sight, past=state.layer(i))
        state.advance(n)
        return self.norm(x)


def nothing_read(model: BlockStack, layout: Layout) -> list[Tensor]:
    """No rows (B, 0, D) of each layer."""
    rows = as_computed(next(model.parameters()).new_zeros(layout.n_sequences, 0, model.config.d_model))
    return [rows] * model.config.n_layers


def read_segment(
    model: BlockStack, tokens: Tensor, layout: Layout, before: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """A segment, with rows (B, M, D) before it in each layer: its rows, and what each layer read of it."""
    n, length = layout.n_sequences, layout.longest
    if n * length != tokens.numel():
        raise RegardError("a memory is carried over from sequences of one length; these differ")
    x = model.embed(tokens.view(n, length), full(n, length, tokens))
    n_before = before[0].shape[1]
    queries, sight = full(n, length, tokens, start=n_before), Once(model.config.sight)
    earlier, whole = full(n, n_before, tokens), full(n, n_before + length, tokens)
    inputs = []
    for block, rows in zip(model.blocks, before, strict=True):
        inputs.append(x)
        x = block(x, queries, sight, past=block.recall(rows, earlier, whole))
    return layout.arrange(model.norm(x)), inputs
