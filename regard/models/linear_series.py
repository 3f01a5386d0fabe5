"""Linear forecasters: one product from the past of a column to its future, the same for all columns or one for each."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import at_least
from regard.models.forecaster import Forecaster, ForecasterConfig
from regard.nn.linear import Linear, n_weights


@dataclass(frozen=True, kw_only=True)
class LinearConfig(ForecasterConfig):
    reads_features: ClassVar[bool] = False

    individual: bool = False  # every column has weights of its own; `false`: all columns share them


class OwnLinears(nn.Module):
    """y_c = W_c x_c + b_c of every column c: (B, C, L) -> (B, C, H outputs)"""

    def __init__(self, config: LinearConfig):
        super().__init__()
        self.of_columns = nn.ModuleList(even_linear(config) for _ in range(config.n_columns))

    def forward(self, x: Tensor) -> Tensor:
        columns = zip(self.of_columns, x.unbind(1), strict=True)
        return torch.stack([project(column) for project, column in columns], 1)


def even_linear(config: LinearConfig) -> Linear:
    """It begins with the mean of the past."""
    linear = Linear(config.look_back, config.horizon * config.n_outputs)
    nn.init.constant_(linear.weight, 1 / config.look_back)
    nn.init.zeros_(linear.bias)
    return linear


def to_future(config: LinearConfig) -> nn.Module:
    return OwnLinears(config) if config.individual else even_linear(config)


def multiplications(config: LinearConfig, *projections: nn.Module) -> float:
    """For the columns of a window."""
    return n_weights(*projections) * (1 if config.individual else config.n_columns)


@dataclass(frozen=True, kw_only=True)
class NLinearConfig(LinearConfig):
    normalize: str = "last"


class NLinear(Forecaster):
    """y = W (x - x_L) + b + x_L  (Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?")"""

    config: NLinearConfig

    def __init__(self, config: NLinearConfig):
        super().__init__(config)
        self.project = to_future(config)

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        return self.split(self.project(past.transpose(1, 2)))

    def multiplications(self) -> float:
        return multiplications(self.config, self.project)


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(LinearConfig):
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
        self.of_trend = to_future(config)
        self.of_rest = to_future(config)

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        x = past.transpose(1, 2)
        trend = moving_average(x, self.config.smooth)
        return self.split(self.of_trend(trend) + self.of_rest(x - trend))

    def multiplications(self) -> float:
        return multiplications(self.config, self.of_trend, self.of_rest)


def moving_average(x: Tensor, n: int) -> Tensor:
    """(B, C, L) -> the same shape; before the first step and after the last their values are repeated."""
    padded = F.pad(x, ((n - 1) // 2, n // 2), mode="replicate")
    return F.avg_pool1d(padded, n, stride=1)
