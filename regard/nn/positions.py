"""Position encodings.  Each acts at one of three sites and leaves the others as they are:
embed (added to the embeddings), rotate (turns queries and keys), bias (added to the scores).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Position(nn.Module):
    """No position at all; the base of every encoding."""

    has_bias = False

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__()
        self.max_length = max_length

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (..., D) and their places (...)."""
        return x

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (..., H, E) and their places (...)."""
        return heads

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Places (B, Q) and (K) -> what is added to the scores, broadcasts to (B, H, Q, K)."""
        return torch.zeros((), device=queries.device)


class Sinusoidal(Position):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(same)  (Vaswani et al. 2017, section 3.5)"""

    table: Tensor

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__(d_model, n_heads, max_length)
        self.register_buffer("table", sinusoids(max_length, d_model), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions].to(x.dtype)


class Learned(Position):
    """One trained vector per position (Gehring et al. 2017; BERT, GPT-2, ViT)."""

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__(d_model, n_heads, max_length)
        self.table = nn.Parameter(torch.randn(max_length, d_model) * 0.02)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + F.embedding(positions, self.table)


class Rotary(Position):
    """Turn each pair of channels by an angle that grows with the position (Su et al. 2021, eq. 34)."""

    table: Tensor

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__(d_model, n_heads, max_length)
        self.register_buffer("table", sinusoids(max_length, d_model // n_heads), persistent=False)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        turn = self.table[positions].to(heads.dtype).unsqueeze(-2)  # ... 1 E
        sin, cos = turn[..., 0::2], turn[..., 1::2]
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class Alibi(Position):
    """Scores fall linearly with distance, at one slope per head (Press et al. 2022)."""

    has_bias = True
    slopes: Tensor

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__(d_model, n_heads, max_length)
        slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)  # H 1 1

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (queries[:, None, :, None] - keys).abs()  # B 1 Q K
        return -self.slopes * distance


class Index(Position):
    """The bare place, pos, added to every channel: unbounded, so late words drown in it.  For comparison only."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions[..., None].to(x.dtype)


class Binary(Position):
    """The place as bits, one per channel: bounded, but near places can be far apart (7 = 0111, 8 = 1000).
    For comparison only."""

    table: Tensor

    def __init__(self, d_model: int, n_heads: int, max_length: int):
        super().__init__(d_model, n_heads, max_length)
        n_bits = max(1, math.ceil(math.log2(max_length)))
        channels = torch.arange(d_model) % n_bits  # a wide model repeats the bits
        bits = (torch.arange(max_length)[:, None] >> channels) & 1  # T D
        self.register_buffer("table", bits.float(), persistent=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions].to(x.dtype)


POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "index": Index,
    "binary": Binary,
}


def sinusoids(n_positions: int, n_channels: int) -> Tensor:
    """The table of sines and cosines, T by channels; an odd last channel is a sine."""
    wavelengths = 10000 ** (torch.arange(0, n_channels, 2) / n_channels)
    angles = torch.arange(n_positions)[:, None] / wavelengths
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :n_channels]
