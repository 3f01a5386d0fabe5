"""Windows as blocks: queries in blocks as long as the window, each with the keys of its neighbors and of global rows.

    keys of block n:  [global rows] [block n - 1] [block n] [block n + 1, where rows look ahead]

No query's window reaches further, so that nothing else is computed  (Beltagy et al. 2020, section 3.1; Ainslie et al.
2020, section 2.4).
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.layout import Layout
from regard.nn.positions import Position
from regard.nn.sight import Sight


@dataclass(frozen=True)
class Blocks:
    """How sequences of `length` rows are cut: N blocks of `size`."""

    size: int
    length: int
    ahead: bool  # whether rows look ahead
    n_global: int  # the first rows, which look at all and are looked at by all

    @property
    def n_blocks(self) -> int:
        return -(-self.length // self.size)

    def cut(self, rows: Tensor) -> Tensor:
        """(B, H, T, E) -> (B N, H, size, E)"""
        padded = F.pad(rows, (0, 0, 0, self.n_blocks * self.size - self.length))
        return padded.unflatten(2, (-1, self.size)).transpose(1, 2).flatten(0, 1)

    def join(self, blocks: Tensor, n_sequences: int) -> Tensor:
        """The opposite of `cut`."""
        by_sequence = blocks.unflatten(0, (n_sequences, -1)).transpose(1, 2)  # B H N size E
        return by_sequence.flatten(2, 3)[:, :, : self.length]

    def neighbors(self, rows: Tensor) -> Tensor:
        """What each block looks at: (B, H, T, E) -> (B N, H, K, E)"""
        behind = self.n_blocks * self.size - self.length + (self.size if self.ahead else 0)
        blocks = F.pad(rows, (0, 0, self.size, behind)).unflatten(2, (-1, self.size))
        parts = [blocks[:, :, shift : shift + self.n_blocks] for shift in range(3 if self.ahead else 2)]
        if self.n_global:
            first = rows[:, :, None, : self.n_global]
            parts.insert(0, first.expand(-1, -1, self.n_blocks, -1, -1))
        return torch.cat(parts, 3).transpose(1, 2).flatten(0, 1)

    def places(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Of the queries (N, size, 1) and the keys (N, 1, K) of each block; keys beyond the ends have places, too."""
        begins = torch.arange(self.n_blocks, device=device)[:, None] * self.size
        queries = begins + torch.arange(self.size, device=device)
        keys = begins + torch.arange(-self.size, self.size * (2 if self.ahead else 1), device=device)
        first = torch.arange(self.n_global, device=device).expand(self.n_blocks, -1)
        return queries[:, :, None], torch.cat([first, keys], 1)[:, None]

    def masks(self, sight: Sight, layout: Layout, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What is added to the scores, 0 or -infinity: of all blocks (B N, 1, size, K), of global rows (B, 1, G, T)."""
        lengths = layout.lengths[:1] if layout.is_full else layout.lengths
        sequences = torch.arange(len(lengths), device=lengths.device)[:, None, None, None]
        ends = lengths[:, None, None, None]
        queries, keys = self.places(lengths.device)
        near = sight.allows(queries, keys, sequences) & (keys >= 0) & (keys < ends)
        near[..., self.n_global :] &= keys[..., self.n_global :] >= self.n_global  # these stand before them already
        places = torch.arange(self.length, device=lengths.device)
        far = sight.allows(places[: self.n_global, None], places, sequences) & (places < ends)  # B 1 G T
        near = added(near, dtype).expand(layout.n_sequences, -1, -1, -1)
        return near.flatten(0, 1)[:, None], added(far, dtype)

    def bias(self, position: Position, masks: Tensor) -> Tensor:
        """The masks of blocks with what a position adds.  It sees distances, which are the same in all blocks, also far
        from global rows; those to global rows are not."""
        queries, keys = self.places(masks.device)
        of_global = position.bias(queries[:, :, 0].reshape(1, -1), keys[0, 0, : self.n_global])  # 1 H N*size G
        of_global = of_global[0].unflatten(1, (self.n_blocks, self.size)).transpose(0, 1)  # N H size G
        far = self.size + self.n_global
        of_block = position.bias(queries[:1, :, 0] + far, keys[0, 0, self.n_global :] + far)  # 1 H size K
        both = torch.cat([of_global, of_block.expand(self.n_blocks, -1, -1, -1)], -1).to(masks.dtype)
        return (masks.unflatten(0, (-1, self.n_blocks)) + both).flatten(0, 1)


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look, else -infinity.  One that sees nothing is beyond its sequence: it may look at all."""
    mask = mask | ~mask.any(-1, keepdim=True)
    return torch.zeros_like(mask, dtype=dtype).where(mask, float("-inf"))
