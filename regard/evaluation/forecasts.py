"""Errors of forecasts, summed over windows for every step ahead and column: MSE, MAE, MASE, CRPS and coverage."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def pinball(errors: Tensor, quantiles: Tensor) -> Tensor:
    """max(q e, (q - 1) e) of e = true - forecast (..., Q): least, on average, where the forecast is the q-quantile."""
    return torch.maximum(quantiles * errors, (quantiles - 1) * errors)


class Errors:
    """Sums (H, C), in float64, of all windows that were added; none is left out.

    Errors are standardized, as papers report them; times `deviations` (C) they have the units of the data.
    """

    def __init__(self, horizon: int, deviations: Sequence[float] | np.ndarray, quantiles: Sequence[float] = ()):
        self.deviations, self.quantiles = np.asarray(deviations, np.float64), tuple(quantiles)
        shape = horizon, len(self.deviations)
        self.squared, self.absolute, self.n = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.scores, self.n_covered = np.zeros(shape), np.zeros(shape)
        self.n_windows = 0

    @torch.no_grad()
    def add(self, outputs: Tensor, future: Tensor, measured: Tensor | None) -> None:
        """Forecasts (B, H, C, 1 + Q), the point first; what came (B, H, C), and whether it was measured."""
        outputs, future = outputs.double(), future.double()
        counts = torch.ones_like(future) if measured is None else measured.double()
        errors = future - outputs[..., 0]
        self.n_windows += len(future)
        self.n += summed(counts)
        self.squared += summed(errors.square() * counts)
        self.absolute += summed(errors.abs() * counts)
        if not self.quantiles:
            self.scores += summed(errors.abs() * counts)  # of one number, CRPS is the absolute error
            return
        bands = outputs[..., 1:].sort(-1).values  # quantiles of one distribution do not cross
        levels = torch.tensor(self.quantiles, dtype=torch.float64, device=bands.device)
        self.scores += summed(2 * pinball(future[..., None] - bands, levels).mean(-1) * counts)
        is_inside = (bands[..., 0] <= future) & (future <= bands[..., -1])
        self.n_covered += summed(is_inside * counts)

    def mean(self, sums: np.ndarray, axis: int | None = None) -> np.ndarray:
        """Over all windows; NaN where nothing was measured."""
        with np.errstate(invalid="ignore"):
            return np.asarray(sums.sum(axis) / self.n.sum(axis))

    @property
    def mse(self) -> float:
        return float(self.mean(self.squared))

    @property
    def mae(self) -> float:
        return float(self.mean(self.absolute))

    def mase(self, naive: np.ndarray, axis: int | None = None) -> np.ndarray:
        """|e| / mean |x_t - x_(t - season)| of training, `naive` (C); of a column that never changed there is none.
        (Hyndman and Koehler 2006)"""
        is_usable = naive > 0
        ratios = (self.absolute * self.deviations)[:, is_usable] / naive[is_usable]
        n = self.n[:, is_usable]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = ratios.sum(axis) / n.sum(axis)
        if axis != 0:
            return np.asarray(means)
        whole = np.full(len(naive), np.nan)
        whole[is_usable] = means
        return whole

    def crps(self, axis: int | None = None) -> np.ndarray:
        """∫ (F(y) - [x <= y])² dy, in the units of the data: about twice the mean pinball loss of the quantiles."""
        return self.mean(self.scores * self.deviations, axis)

    def coverage(self, axis: int | None = None) -> np.ndarray:
        """How much of what came lies between the lowest and the highest quantile."""
        return self.mean(self.n_covered, axis)


def summed(of_windows: Tensor) -> np.ndarray:
    return np.asarray(of_windows.sum(0).cpu())
