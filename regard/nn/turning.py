"""How fast rotary positions turn, also in texts longer than those a model was first trained on.

A pair of channels turns by its rate at every place.  What scales the rates down lets a long text turn no further than
the texts of the training did.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.choose import choose
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Turning:
    """`slow` and `fast` count the turns that a pair makes in a text of `length` (llama3, yarn)."""

    base: float = 10000.0
    scaling: str = "none"
    factor: float = 1.0  # by which texts have become longer
    length: int = 0  # tokens of the longest text of the first training
    slow: float = 1.0  # pairs with fewer turns are slowed by the factor ...
    fast: float = 32.0  # ... and those with more are not
    gain: float = 0.0  # of queries and keys; 0: as the scaling says

    def check(self, d_head: int) -> None:
        choose(SCALINGS, self.scaling, "scaling of rotary positions (rotary_scaling)")
        if self.fast <= self.slow and self.scaling in ("llama3", "yarn"):
            raise ConfigError(f"rotary_fast ({self.fast}) must be above rotary_slow ({self.slow})")
        if self.scaling == "dynamic" and d_head <= 2:
            raise ConfigError('rotary_scaling = "dynamic" needs heads of more than 2 channels')

    @property
    def sees_length(self) -> bool:
        """Whether a longer text turns slower."""
        return self.scaling == "dynamic"

    @property
    def size(self) -> float:
        """Of what is turned, beside what it was.  YaRN sharpens the weights of long texts (eq. 22)."""
        return self.gain or (0.1 * math.log(self.factor) + 1.0 if self.scaling == "yarn" else 1.0)

    def rates(self, d_head: int) -> Tensor:
        """The angle from one place to the next, of every pair of channels (E/2)."""
        return SCALINGS[self.scaling](plain_rates(d_head, self.base), self)

    def rates_of(self, lengths: Tensor, d_head: int) -> Tensor:
        """Of texts of these lengths (..., 1), if they are `dynamic`: a base that grows with the text (..., E/2)."""
        longer = self.factor * lengths.clamp(min=self.length) / self.length - (self.factor - 1)
        return plain_rates(d_head, self.base * longer ** (d_head / (d_head - 2)))


def plain_rates(n_channels: int, base: float | Tensor) -> Tensor:
    """base^(-2i/d)  (Vaswani et al. 2017, section 3.5; Su et al. 2021, eq. 15)"""
    device = base.device if isinstance(base, Tensor) else None
    return 1 / base ** (torch.arange(0, n_channels, 2, device=device) / n_channels)


def plain(rates: Tensor, turning: Turning) -> Tensor:
    return rates


def linear(rates: Tensor, turning: Turning) -> Tensor:
    """All by the factor (Chen et al. 2023, eq. 4)."""
    return rates / turning.factor


def llama3(rates: Tensor, turning: Turning) -> Tensor:
    """Between slow and fast pairs by the number of their turns (Dubey et al. 2024; from the authors' code)."""
    turns = turning.length * rates / (2 * math.pi)
    return mixed(rates, turning, (turns - turning.slow) / (turning.fast - turning.slow))


def yarn(rates: Tensor, turning: Turning) -> Tensor:
    """Between slow and fast pairs by their place among the channels (Peng et al. 2023, section 3.2)."""
    n_channels = 2 * len(rates)

    def channel(turns: float) -> float:
        """Of the pair that turns so often in a text of the first training."""
        return n_channels * math.log(turning.length / (2 * math.pi * turns)) / (2 * math.log(turning.base))

    first, last = max(math.floor(channel(turning.fast)), 0), min(math.ceil(channel(turning.slow)), n_channels - 1)
    pairs = torch.arange(len(rates)) - first
    return mixed(rates, turning, 1 - pairs / (last - first if last != first else 0.001))


def mixed(rates: Tensor, turning: Turning, kept: Tensor) -> Tensor:
    """A share of each rate is kept, from 0 to 1, and the rest slowed by the factor."""
    kept = kept.clamp(0, 1)
    return kept * rates + (1 - kept) * rates / turning.factor


SCALINGS: dict[str, Callable[[Tensor, Turning], Tensor]] = {
    "none": plain,
    "linear": linear,
    "dynamic": plain,  # up to the length of the first training
    "llama3": llama3,
    "yarn": yarn,
}
