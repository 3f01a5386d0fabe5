"""Linear forecasters: one product from the past of a column to its future, the same for every column."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import at_least
from regard.models.forecaster import Forecaster, ForecasterConfig
from regard.nn.linear import Linear, n_weights


@dataclass(frozen=True, kw_only=True)
class NLinearConfig(ForecasterConfig):
    reads_features: ClassVar[bool] = False

    normalize: str = "last"


class NLinear(Forecaster):
    """y = W (x - x_L) + b + x_L  (Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?")"""

    config: NLinearConfig

    def __init__(self, config: NLinearConfig):
        super().__init__(config)
        self.project = even(Linear(config.look_back, config.horizon * config.n_outputs))

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        return self.split(self.project(past.transpose(1, 2)))

    def multiplications(self) -> float:
        return self.form.n_columns * n_weights(self.project)


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ForecasterConfig):
    reads_features: ClassVar[bool] = False

    normalize: str = "none"
    smooth: int = 25  # steps whose mean is the trend; an odd number

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "smooth")


class DLinear(Forecaster):
    """y = W_t t + W_s (x - t) + b, where t is a moving average of x, its trend  (Zeng et al. 2023)"""

    config: DLinearConfig

    def __init__(self, config: DLinearConfig):
        super().__init__(config)
        self.of_trend = even(Linear(config.look_back, config.horizon * config.n_outputs))
        self.of_rest = even(Linear(config.look_back, config.horizon * config.n_outputs))

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        x = past.transpose(1, 2)
        trend = moving_average(x, self.config.smooth)
        return self.split(self.of_trend(trend) + self.of_rest(x - trend))

    def multiplications(self) -> float:
        return self.form.n_columns * n_weights(self.of_trend, self.of_rest)


def moving_average(x: Tensor, n: int) -> Tensor:
    """(B, C, L) -> the same shape; before the first step and after the last their values are repeated."""
    padded = F.pad(x, ((n - 1) // 2, n // 2), mode="replicate")
    return F.avg_pool1d(padded, n, stride=1)


def even(linear: Linear) -> Linear:
    """Begin with the mean of the past."""
    nn.init.constant_(linear.weight, 1 / linear.in_features)
    if linear.bias is not None:
        torch.nn.init.zeros_(linear.bias)
    return linear
