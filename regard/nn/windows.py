"""Windows as blocks: queries in blocks, each with the keys that their windows reach and those of global rows.

    keys of block n:  [global rows] [blocks before n] [block n] [blocks after n, where rows look ahead]

Nothing else is computed  (Beltagy et al. 2020, section 3.1; Ainslie et al. 2020, section 2.4).  Blocks that are far
from both ends of a sequence see the same keys, counted from their own: they have one mask.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.layout import Layout
from regard.nn.positions import Position
from regard.nn.sight import Local, Sight


class Section(NamedTuple):
    """Blocks `begin` to `end` of every sequence."""

    begin: int
    end: int
    are_alike: bool  # one mask serves all of them


class Masks(NamedTuple):
    """What is added to the scores, 0 or -infinity."""

    sections: list[tuple[Section, Tensor]]  # of the blocks of each section: broadcasts to (B, n, H, size, K)
    of_global: Tensor  # of the global rows: broadcasts to (B, H, G, reach)


@dataclass(frozen=True)
class Blocks:
    """How sequences of `length` rows are cut: N blocks of `size`, which see what a local rule lets them see."""

    local: Local
    size: int
    length: int

    @property
    def n_global(self) -> int:
        return min(self.local.n_global, self.length)

    @property
    def n_blocks(self) -> int:
        return -(-self.length // self.size)

    @property
    def before(self) -> int:
        """How many blocks windows reach back."""
        return -int(-self.local.near[0] // self.size)

    @property
    def after(self) -> int:
        return -int(-self.local.near[1] // self.size)

    @property
    def reach(self) -> int:
        """How many rows the global rows look at: if nobody looks ahead, only each other."""
        return int(min(self.length, self.n_global + self.local.far[1]))

    def sections(self, is_full: bool) -> list[Section]:
        """Alike are the blocks whose keys begin after the global rows and end within the sequence.  Where no row looks
        ahead, the end does not matter; else all sequences must have the same."""
        first, last = self.before - (-self.n_global // self.size), self.n_blocks
        if self.after:
            last = self.length // self.size - self.after if is_full else 0
        if last <= first or (self.n_global and self.local.far[0] < self.length):
            return [Section(0, self.n_blocks, are_alike=False)]
        ends = (0, first, last, self.n_blocks)
        return [Section(i, j, are_alike=i == first) for i, j in pairwise(ends) if i < j]

    def masks(self, sight: Sight, layout: Layout, dtype: torch.dtype) -> Masks:
        lengths = layout.lengths[:1] if layout.is_full else layout.lengths
        sequences = torch.arange(len(lengths), device=lengths.device)[:, None, None, None]
        ends = lengths[:, None, None, None]

        def of_section(section: Section) -> Tensor:
            if section.are_alike:
                mask = sight.allows(*self.places(section.begin, section.begin + 1, ends.device), sequences[:1])
                return mask.expand(1, 1, -1, -1)
            queries, keys = self.places(section.begin, section.end, ends.device)
            mask = sight.allows(queries, keys, sequences) & (keys >= 0) & (keys < ends)
            mask[..., self.n_global :] &= keys[..., self.n_global :] >= self.n_global  # these stand before them already
            return mask

        places = torch.arange(self.reach, device=ends.device)
        of_global = sight.allows(places[: self.n_global, None], places, sequences) & (places < ends)  # B 1 G reach
        sections = [
            (section, added(of_section(section), dtype).unsqueeze(2)) for section in self.sections(layout.is_full)
        ]
        return Masks(sections, added(of_global, dtype))

    def places(self, begin: int, end: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Of the queries (n, size, 1) and the keys (n, 1, K) of these blocks; keys beyond the ends have places, too."""
        begins = torch.arange(begin, end, device=device)[:, None] * self.size
        queries = begins + torch.arange(self.size, device=device)
        keys = begins + torch.arange(-self.size * self.before, self.size * (self.after + 1), device=device)
        first = torch.arange(self.n_global, device=device).expand(end - begin, -1)
        return queries[:, :, None], torch.cat([first, keys], 1)[:, None]

    def bias(self, position: Position, section: Section, device: torch.device) -> Tensor:
        """What a position adds: (n, H, size, K), or (1, H, size, K) where it is the same in all blocks.  Distances are,
        also far from global rows; those to global rows are not, unless the position does not measure them."""
        far = self.before - (-self.n_global // self.size)  # a block that is far from global rows
        queries, keys = self.places(far, far + 1, device)
        of_block = position.bias(queries[:, :, 0], keys[0, 0, self.n_global :])  # 1 H size K
        if not self.n_global:
            return of_block
        is_same = section.are_alike and not position.measures_global
        queries, keys = self.places(section.begin, section.begin + 1 if is_same else section.end, device)
        of_global = position.bias(queries.reshape(1, -1), keys[0, 0, : self.n_global])  # 1 H n*size G
        of_global = of_global[0].unflatten(1, (-1, self.size)).transpose(0, 1)  # n H size G
        return torch.cat([of_global, of_block.expand(len(of_global), -1, -1, -1)], -1)

    def cut(self, rows: Tensor, begin: int, end: int) -> Tensor:
        """Blocks `begin` to `end`, with zeros where they go beyond the rows: (B, H, T, E) -> (B, n, H, size, E)"""
        first, last = begin * self.size, end * self.size
        missing = (0, 0, max(0, -first), max(0, last - self.length))
        rows = rows[:, :, max(0, first) : last]
        rows = F.pad(rows, missing) if any(missing) else rows  # it copies, also where nothing is missing
        return rows.unflatten(2, (-1, self.size)).transpose(1, 2)

    def join(self, blocks: list[Tensor]) -> Tensor:
        """The opposite of `cut`."""
        return torch.cat(blocks, 1).transpose(1, 2).flatten(2, 3)[:, :, : self.length]

    def neighbors(self, rows: Tensor, section: Section) -> Tensor:
        """What the blocks of a section look at: (B, H, T, E) -> (B, n, H, K, E)"""
        n = section.end - section.begin
        blocks = self.cut(rows, section.begin - self.before, section.end + self.after)
        first = rows[:, None, :, : self.n_global].expand(-1, n, -1, -1, -1)
        return torch.cat([first, *(blocks[:, i : i + n] for i in range(self.before + 1 + self.after))], 3)


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look, else -infinity.  One that sees nothing is beyond its sequence: it may look at all."""
    mask = mask | ~mask.any(-1, keepdim=True)
    return torch.zeros_like(mask, dtype=dtype).where(mask, float("-inf"))
