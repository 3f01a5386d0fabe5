"""Windows of series: their sizes, and how each is normalized by its own past."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SeriesForm:
    """What a model of series reads and gives, of each window."""

    look_back: int  # steps of the past that are read
    horizon: int  # steps ahead that are forecast
    n_columns: int  # that are forecast
    n_seen: int  # further columns, of the past alone
    n_known: int  # features of past and future
    n_outputs: int  # numbers for each column and step: the forecast, and its quantiles

    @property
    def n_steps(self) -> int:
        return self.look_back + self.horizon


def unchanged(past: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(past[:, :1]), torch.ones_like(past[:, :1])


def last_value(past: Tensor) -> tuple[Tensor, Tensor]:
    """(Zeng et al. 2023, NLinear)"""
    return past[:, -1:], torch.ones_like(past[:, :1])


def mean_and_deviation(past: Tensor) -> tuple[Tensor, Tensor]:
    """(Kim et al. 2022, eq. 1)"""
    variance, mean = torch.var_mean(past, 1, correction=0, keepdim=True)
    return mean, (variance + 1e-5).sqrt()


# Past (B, L, C) -> what is subtracted from each column, and what the rest is divided by, (B, 1, C).
LEVELS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "none": unchanged,
    "last": last_value,
    "window": mean_and_deviation,
}


class WindowNorm(nn.Module):
    """x' = gain (x - level) / deviation + shift, and the same undone  (Kim et al. 2022, RevIN)

    Level and deviation are those of each window's past; gain and shift, one of each for a column, are learned.
    """

    def __init__(self, kind: str, n_columns: int, affine: bool):
        super().__init__()
        self.levels = LEVELS[kind]
        self.gain = nn.Parameter(torch.ones(n_columns)) if affine else None
        self.shift = nn.Parameter(torch.zeros(n_columns)) if affine else None

    def apply_to(self, x: Tensor, levels: tuple[Tensor, Tensor]) -> Tensor:
        """All columns, or the first (B, T, C)."""
        n = x.shape[-1]
        x = (x - levels[0][..., :n]) / levels[1][..., :n]
        return x if self.gain is None or self.shift is None else x * self.gain[:n] + self.shift[:n]

    def undo(self, x: Tensor, levels: tuple[Tensor, Tensor]) -> Tensor:
        """Of the first columns (B, H, C, outputs)."""
        n = x.shape[2]
        if self.gain is not None and self.shift is not None:
            x = (x - self.shift[:n, None]) / (self.gain[:n, None] + 1e-8)
        return x * levels[1][..., :n, None] + levels[0][..., :n, None]
