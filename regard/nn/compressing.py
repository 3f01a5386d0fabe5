"""Memory that is compressed before it is forgotten: several old rows become one  (Rae et al. 2020).

    [compressed rows] [memory] [the segment that is read]

Rows leave the memory at its old end, `rate` of them become one compressed row, and the oldest of these are dropped.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.attention import Memory, Past
from regard.nn.blocks import EncoderBlock
from regard.nn.layout import Rectangle
from regard.nn.linear import Linear
from regard.nn.rolling import full, last_rows, refuse_taking_back
from regard.nn.state import RowState


class ConvolvedRows(nn.Module):
    """c_i = W [m_{ci}; ..; m_{ci + c - 1}] + b: a convolution whose steps are as long as it is wide; at first the mean.

    (Rae et al. 2020, section 3.2, "1D convolution")
    """

    def __init__(self, d_model: int, rate: int):
        super().__init__()
        self.rate = rate
        self.product = Linear(rate * d_model, d_model)
        with torch.no_grad():
            self.product.weight.copy_(torch.eye(d_model).repeat(1, rate) / rate)
            self.product.bias.zero_()

    def forward(self, rows: Tensor) -> Tensor:
        return self.product(rows.unflatten(1, (-1, self.rate)).flatten(2))


class PooledRows(nn.Module):
    """The mean or the largest of every `rate` rows, channel by channel: nothing is learned."""

    def __init__(self, pool: Callable[[Tensor], Tensor], d_model: int, rate: int):
        super().__init__()
        self.pool, self.rate = pool, rate

    def forward(self, rows: Tensor) -> Tensor:
        return self.pool(rows.unflatten(1, (-1, self.rate)))


COMPRESSIONS: dict[str, Callable[[int, int], nn.Module]] = {  # of d_model and the rate: (B, rate n, D) -> (B, n, D)
    "convolution": ConvolvedRows,
    "mean": partial(PooledRows, lambda rows: rows.mean(2)),
    "max": partial(PooledRows, lambda rows: rows.amax(2)),
}


def reconstruction_loss(block: EncoderBlock, x: Tensor, old: Tensor, compressed: Tensor) -> Tensor:
    """mean (attn(h, old) - attn(h, compressed))²,  attn(h, m) = softmax(h Q (m K)^T / sqrt(d)) m V

    What the rows x of a segment find in what was compressed, compared with what they would have found in the rows
    themselves, whatever their places.  Only the compression learns from it (Rae et al. 2020, algorithm 2; the mean in
    place of the sum, so that it does not grow with the sizes).
    """
    wanted = look_for_content(block, x.detach(), old.detach()).detach()
    return F.mse_loss(look_for_content(block, x.detach(), compressed).float(), wanted.float())


def look_for_content(block: EncoderBlock, x: Tensor, rows: Tensor) -> Tensor:
    """attn(x, rows) (B, H, Q, E), with the block's weights as they are: no gradient goes to them."""
    attention, reads = block.attention, block.attention_residual
    if reads.pre_norm:
        x, rows = fixed(reads.norm, x), fixed(reads.norm, rows)
    queries = fixed(attention.norm_queries, attention.split_heads(fixed(attention.to_queries, x)))
    keys = fixed(attention.norm_keys, attention.split_heads(fixed(attention.to_keys, rows)))
    values = attention.split_heads(fixed(attention.to_values, rows))
    n = rows.shape[1]
    memory = Memory(keys, values, full(len(rows), n, rows)).for_heads(attention.n_heads)
    queries, keys, values = (part.transpose(1, 2) for part in (queries, memory.keys, memory.values))
    return F.scaled_dot_product_attention(queries, keys, values, scale=attention.attend.score.scale)


def fixed(module: nn.Module, x: Tensor) -> Tensor:
    """What it makes of x, without a gradient for its weights."""
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    return torch.func.functional_call(module, weights, (x,))


class CompressedMemory(RowState):
    """Of each layer the last rows that it read, and before them what older ones were compressed to."""

    def __init__(self, layers: list[Tensor], compressed: list[Tensor], lengths: Tensor):
        self.layers = layers  # each (B, M, D), without gradients
        self.compressed = compressed  # each (B, C, D)
        self.lengths = lengths  # B

    @property
    def before(self) -> list[Tensor]:
        """All that stands before the next segment, (B, C + M, D) of each layer."""
        return [torch.cat(pair, 1) for pair in zip(self.compressed, self.layers, strict=True)]

    def tensors(self) -> dict[str, Tensor]:
        layers = {f"layer.{i}": layer for i, layer in enumerate(self.layers)}
        return layers | {f"compressed.{i}": rows for i, rows in enumerate(self.compressed)} | {"lengths": self.lengths}

    def select(self, rows: Tensor) -> None:
        self.layers = [layer.index_select(0, rows) for layer in self.layers]
        self.compressed = [layer.index_select(0, rows) for layer in self.compressed]
        self.lengths = self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        refuse_taking_back(self.lengths, lengths)

    def join(self, other: "CompressedMemory") -> None:
        self.layers = [torch.cat(pair) for pair in zip(self.layers, other.layers, strict=True)]
        self.compressed = [torch.cat(pair) for pair in zip(self.compressed, other.compressed, strict=True)]
        self.lengths = torch.cat([self.lengths, other.lengths])


@dataclass(frozen=True)
class Room:
    """How many rows of each layer are kept: when a segment of at most `segment` rows has been read, at least the last
    `memory` are as they were, and of what is older up to `compressed` rows, each made of `rate`."""

    memory: int
    compressed: int
    rate: int
    segment: int

    @property
    def n_rows(self) -> int:
        return self.compressed + self.memory + self.rate - 1 + self.segment

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (B, M, D) that leave the memory, a multiple of the rate, and those that stay."""
        n = max(0, rows.shape[1] - self.memory) // self.rate * self.rate
        return rows[:, :n], rows[:, n:]

    def append(self, compressed: Tensor, new: Tensor) -> Tensor:
        return last_rows(compressed, new, self.compressed)


class CompressiveCache(RowState):
    """In writing: keys and values of [compressed] [memory] [segment] of every layer, and the rows they are made of.

    When a row's segment is full, its oldest rows are compressed, and keys and values are made anew, since all places
    change.  This happens once in `segment` steps, to each row of a batch at its own time.
    """

    def __init__(self, content: Tensor, inputs: Tensor, counts: Tensor, lengths: Tensor, room: Room):
        self.content = content  # 2 (keys, values), layers, B, room, H, E
        self.inputs = inputs  # layers, B, room, D: what each layer read
        self.counts = counts  # 3, B: how many are compressed, in the memory, in the segment
        self.lengths = lengths  # B, tokens read so far
        self.room = room

    @classmethod
    def empty(cls, n_layers: int, n_rows: int, room: Room, heads: tuple[int, int], like: Tensor) -> "CompressiveCache":
        """`heads` as for `RollingCache`; `like` is a row of the model."""
        content = like.new_zeros(2, n_layers, n_rows, room.n_rows, *heads)
        lengths = torch.zeros(n_rows, dtype=torch.long, device=like.device)
        inputs = like.new_zeros(n_layers, n_rows, room.n_rows, like.shape[-1])
        return cls(content, inputs, torch.stack([lengths] * 3), lengths, room)

    @property
    def held(self) -> Tensor:
        return self.counts.sum(0)

    @property
    def n_free(self) -> int:
        """Tokens that every row can read before one of them has a full segment."""
        return self.room.segment - int(self.counts[2].max())

    def queries(self, n: int) -> Rectangle:
        return Rectangle(torch.full_like(self.lengths, n), n, is_full=True, starts=self.held)

    def layer(self, index: int, x: Tensor) -> Past:
        """The past of a layer, which reads x (B, n, D)."""
        return partial(self.extend, index, x)

    def extend(self, layer: int, x: Tensor, new: Memory) -> Memory:
        n, held = x.shape[1], self.held
        keys, values = self.content[:, layer]
        rows = torch.arange(self.n_rows, device=held.device)[:, None]
        columns = held[:, None] + torch.arange(n, device=held.device)
        keys[rows, columns], values[rows, columns] = new.keys.to(keys.dtype), new.values.to(values.dtype)
        self.inputs[layer][rows, columns] = x.to(self.inputs.dtype)
        longest = int(held.max()) + n
        return Memory(keys[:, :longest], values[:, :longest], Rectangle(held + n, longest))

    def advance(self, n: int) -> None:
        """Call once when every layer has been extended by n rows."""
        self.counts[2] += n
        self.lengths = self.lengths + n

    def compress(self, compressions: Iterable[nn.Module], blocks: Iterable[EncoderBlock]) -> None:
        """Make room in the rows whose segment is full."""
        is_full = self.counts[2] == self.room.segment
        layers = list(zip(compressions, blocks, strict=True))
        for n_compressed, n_memory, n in {tuple(counts) for counts in self.counts[:, is_full].T.tolist()}:
            alike = (self.counts == self.counts.new_tensor([n_compressed, n_memory, n])[:, None]).all(0).nonzero()[:, 0]
            for i, (compression, block) in enumerate(layers):
                old, rows = self.inputs[i, alike, : n_compressed + n_memory + n].split([n_compressed, n_memory + n], 1)
                leaving, memory = self.room.split(rows)
                compressed = self.room.append(old, compression(leaving)) if leaving.shape[1] else old
                after = torch.cat([compressed, memory], 1)
                made = block.attention.remember(
                    block.attention_residual.read(after), full(len(after), after.shape[1], after)
                )
                width = after.shape[1]
                self.inputs[i, alike, :width] = after
                self.content[0, i, alike, :width] = made.keys.to(self.content.dtype)
                self.content[1, i, alike, :width] = made.values.to(self.content.dtype)
            kept = [compressed.shape[1], memory.shape[1], 0]
            self.counts[:, alike] = self.counts.new_tensor(kept)[:, None]

    def select(self, rows: Tensor) -> None:
        self.content, self.inputs = self.content.index_select(2, rows), self.inputs.index_select(1, rows)
        self.counts, self.lengths = self.counts[:, rows], self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        refuse_taking_back(self.lengths, lengths)

    def join(self, other: "CompressiveCache") -> None:
        self.content = torch.cat([self.content, other.content], 2)
        self.inputs = torch.cat([self.inputs, other.inputs], 1)
        self.counts = torch.cat([self.counts, other.counts], 1)
        self.lengths = torch.cat([self.lengths, other.lengths])
