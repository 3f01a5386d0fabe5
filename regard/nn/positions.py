"""Position encodings.  Each acts at one of three sites and leaves the others as they are:
embed (added to the embeddings), rotate (turns queries and keys), bias (added to the scores).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.layout import Layout
from regard.nn.turning import Turning, plain_rates


@dataclass(frozen=True)
class Space:
    """What an encoding may know of the stack of blocks that it serves."""

    d_model: int
    n_heads: int
    max_length: int
    d_head: int = 0  # 0: d_model / n_heads
    turning: Turning = field(default_factory=Turning)
    n_buckets: int = 32
    furthest: int = 128  # the distance from which on all share one bucket
    one_sided: bool = False  # no query looks ahead: that needs no buckets
    n_global: int = 0  # the first rows, which look at all and are looked at by all: with buckets, distances to them are
    # not told apart
    endless: bool = False  # places go on past max_length
    side: int = 0  # of the grid on which rows have their places, see `regard.nn.grid`; 0: they stand in a line

    @property
    def width(self) -> int:
        """Of one head."""
        return self.d_head or self.d_model // self.n_heads


class Position(nn.Module):
    """No position at all; the base of every encoding."""

    has_bias = False
    learns_bias = False
    measures_global = True  # what it adds to a score of a global row depends on the distance
    sees_length = False  # what it does with a row depends on how long the text is by then

    def __init__(self, space: Space):
        super().__init__()
        self.space, self.max_length = space, space.max_length

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (..., D) and their places (...)."""
        return x

    def rotate(self, heads: Tensor, layout: Layout) -> Tensor:
        """Queries or keys (..., H, E), and how they lie."""
        return heads

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places (B, Q) and (K) -> what is added to the scores, broadcasts to (B, H, Q, K)."""
        return torch.zeros((), device=queries.device)


class Sinusoidal(Position):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same)  (Vaswani et al. 2017, section 3.5)"""

    table: Tensor

    def __init__(self, space: Space):
        super().__init__(space)
        self.register_buffer("table", sinusoids(space.max_length, space.d_model), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions].to(x.dtype)


class SinusoidalHalves(Sinusoidal):
    """The same numbers, all sines before all cosines: how the authors' code and Marian lay them out."""

    def __init__(self, space: Space):
        super().__init__(space)
        self.table = torch.cat([self.table[:, 0::2], self.table[:, 1::2]], 1)


class Learned(Position):
    """One trained vector per position (Gehring et al. 2017; BERT, GPT-2, ViT)."""

    def __init__(self, space: Space):
        super().__init__(space)
        self.table = nn.Parameter(torch.randn(space.max_length, space.d_model) * 0.02)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + F.embedding(positions, self.table)


class Rotary(Position):
    """Turn each pair of channels by an angle that grows with the position (Su et al. 2021, eq. 34)."""

    table: Tensor
    rates: Tensor

    def __init__(self, space: Space):
        super().__init__(space)
        self.turning = space.turning
        self.sees_length = self.turning.sees_length
        rates = self.turning.rates(space.width)
        self.register_buffer("rates", rates, persistent=False)
        places = torch.arange(0 if self.sees_length else space.max_length)
        table = self.far(places) if space.endless else waves(places[:, None], rates) * self.turning.size
        self.register_buffer("table", table, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves, but rates are never rounded: at a large place, half of their digits would turn by another angle."""
        rates = self.rates
        super()._apply(fn, recurse)
        if not rates.is_meta:
            self.rates = rates.to(self.rates.device)
        return self

    def turn(self, layout: Layout) -> Tensor:
        """Sine and cosine of each pair's angle at every row's place (..., E)."""
        if self.space.endless and (layout.starts is not None or layout.longest > self.max_length):
            return self.far(layout.positions)
        if not self.sees_length:
            return self.table[layout.positions]
        rates = self.turning.rates_of(layout.ends[..., None], self.space.width)
        return waves(layout.positions[..., None], rates) * self.turning.size

    def far(self, places: Tensor) -> Tensor:
        """In float64: of large places float32 would lose the angle."""
        return (waves(places[..., None].double(), self.rates.double()) * self.turning.size).float()

    def rotate(self, heads: Tensor, layout: Layout) -> Tensor:
        if turns_as_one(heads):
            return (heads.view(torch.complex64) * layout.once(self, lambda: self.complex_turn(layout))).view(
                heads.dtype
            )
        turn = self.turn(layout).to(heads.dtype).unsqueeze(-2)  # ... 1 E
        sin, cos = turn[..., 0::2], turn[..., 1::2]
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)

    def complex_turn(self, layout: Layout) -> Tensor:
        """The same turns as complex numbers (..., 1, E/2), with which a pair of channels is multiplied as one."""
        turn = self.turn(layout).float().unsqueeze(-2)
        return torch.complex(turn[..., 1::2], turn[..., 0::2])


def turns_as_one(heads: Tensor) -> bool:
    """Whether one product of complex numbers turns all pairs: in decoding on a CPU, where few channels make the number
    of operations count."""
    return (
        heads.device.type == "cpu"
        and heads.dtype == torch.float32
        and heads.stride(-1) == 1
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
    )


class Alibi(Position):
    """Scores fall linearly with distance, at one slope per head (Press et al. 2022)."""

    has_bias = True
    slopes: Tensor

    def __init__(self, space: Space):
        super().__init__(space)
        slopes = 2.0 ** (-8 * torch.arange(1, space.n_heads + 1) / space.n_heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)  # H 1 1

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (queries[:, None, :, None] - keys).abs()  # B 1 Q K
        return -self.slopes * distance


class Buckets(Position):
    """One learned number per head and bucket of distance, added to the scores (Raffel et al. 2020, section 2.1)

    Half of the buckets are single distances; the others grow with the logarithm of the distance.  A row and a global
    row have no distance, but a number for each way of looking  (Ainslie et al. 2020, section 3.2: there, as for all
    distances, a vector that is added to keys).
    """

    has_bias = learns_bias = True

    def __init__(self, space: Space):
        super().__init__(space)
        self.measures_global = not space.n_global
        n = space.n_buckets + (2 if space.n_global else 0)
        self.table = nn.Parameter(torch.randn(n, space.n_heads) * space.d_model**-0.5)

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        label = self.bucket(keys - queries[..., None])  # B Q K
        if n := self.space.n_global:
            from_global, to_global = queries[..., None] < n, keys < n
            label = torch.where(from_global & ~to_global, self.space.n_buckets, label)
            label = torch.where(to_global & ~from_global, self.space.n_buckets + 1, label)
        return F.embedding(label, self.table).permute(0, 3, 1, 2)  # B H Q K

    def bucket(self, ahead: Tensor) -> Tensor:
        """How far a key lies ahead of its query (below 0: before it) -> 0 .. n_buckets - 1."""
        n, sided = self.space.n_buckets, torch.zeros_like(ahead)
        if not self.space.one_sided:
            n //= 2
            sided = (ahead > 0) * n
        distance = (-ahead).clamp(min=0) if self.space.one_sided else ahead.abs()
        single = n // 2
        growth = (distance.clamp(min=1) / single).log() / math.log(self.space.furthest / single)
        shared = (single + (growth * (n - single)).long()).clamp(max=n - 1)
        return sided + torch.where(distance < single, distance, shared)


class Index(Position):
    """The bare place, pos, added to every channel: unbounded, so late words drown in it.  For comparison only."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions[..., None].to(x.dtype)


class Binary(Position):
    """The place as bits, one per channel: bounded, but near places can be far apart (7 = 0111, 8 = 1000).
    For comparison only."""

    table: Tensor

    def __init__(self, space: Space):
        super().__init__(space)
        n_bits = max(1, math.ceil(math.log2(space.max_length)))
        channels = torch.arange(space.d_model) % n_bits  # a wide model repeats the bits
        bits = (torch.arange(space.max_length)[:, None] >> channels) & 1  # T D
        self.register_buffer("table", bits.float(), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions].to(x.dtype)


POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "sinusoidal_halves": SinusoidalHalves,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "buckets": Buckets,
    "index": Index,
    "binary": Binary,
}


class SinusoidalGrid(Sinusoidal):
    """The sines and cosines of a patch's row in one half of the channels, those of its column in the other."""

    def __init__(self, space: Space):
        super().__init__(space)
        self.table = on_grid(sinusoids(space.side, space.d_model // 2), torch.zeros(space.d_model // 2), space.side)


class RotaryGrid(Rotary):
    """One half of each head's channels is turned by the patch's row, the other by its column; the class row is not.

    Scores then depend on how far apart two patches are, down and across  (Heo et al. 2024, the axial form).
    """

    def __init__(self, space: Space):
        super().__init__(space)
        width = space.width // 2
        turns = waves(torch.arange(space.side)[:, None], self.turning.rates(width))
        self.table = on_grid(turns, torch.tensor([0.0, 1.0]).repeat(width // 2), space.side)


def on_grid(line: Tensor, nowhere: Tensor, side: int) -> Tensor:
    """The vectors of a line (side, D) -> those of all places of a grid (1 + side * side, 2 D), after that of none."""
    down, across = line.repeat_interleave(side, 0), line.repeat(side, 1)
    return torch.cat([nowhere.repeat(2)[None], torch.cat([down, across], 1)])


GRID_POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "sinusoidal": SinusoidalGrid,
    "learned": Learned,
    "rotary": RotaryGrid,
}


def make_position(name: str, space: Space) -> Position:
    return (GRID_POSITIONS if space.side else POSITIONS)[name](space)


def sinusoids(n_positions: int, n_channels: int, base: float = 10000.0) -> Tensor:
    """The table of sines and cosines, T by channels; an odd last channel is a sine."""
    return waves(torch.arange(n_positions)[:, None], plain_rates(n_channels, base))[:, :n_channels]


def waves(places: Tensor, rates: Tensor) -> Tensor:
    """Sine and cosine of places (..., 1) times rates (E/2), side by side (..., E)."""
    angles = places * rates  # rounded as other tools round it, not divided by wavelengths
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
