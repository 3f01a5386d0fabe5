"""What every forecast is compared with: the last value, the last season, and linear maps fitted by least squares."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.packing import cut
from regard.data.series.windows import WindowSet
from regard.evaluation.forecasts import Errors

AT_ONCE = 1 << 22  # numbers of the windows that are read together
SMALLEST = 1e-6  # of what weights cost, in columns that never change
MOST = 1 << 27  # numbers of the products of all columns, where each has a map of its own
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # of which the validation part chooses

Rival = Callable[[Tensor], Tensor]  # the past (B, L, C) -> the future (B, H, C)


def repeat_last(horizon: int) -> Rival:
    return lambda past: past[:, -1:].expand(-1, horizon, -1)


def seasonal_naive(horizon: int, season: int) -> Rival:
    """x_(t + h) = the value of the last season at the same place in it; the last value, where no season was read."""

    def forecast(past: Tensor) -> Tensor:
        n = past.shape[1]
        if n < season:
            return repeat_last(horizon)(past)
        return past[:, n - season + torch.arange(horizon, device=past.device) % season]

    return forecast


def windows(part: WindowSet, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """(past, future, whether it was measured) of all windows, of the columns that are forecast."""
    n = part.series.n_columns
    for chosen in cut(np.arange(len(part)), part.lengths * n, AT_ONCE):
        past, _, future, measured = part.read(chosen)
        yield past[..., :n].to(device), future.to(device), None if measured is None else measured.to(device)


def least_squares(
    train: WindowSet, valid: WindowSet | None, is_relative: bool, device: torch.device, individual: bool = False
) -> Rival:
    """The best linear map from the past of a column to its future, the same for all columns or, `individual`, one for
    each: NLinear's where it is relative to the last value; else DLinear's, whose trend and rest are linear in the past,
    so that together they are any linear map.  `valid` chooses how much large weights cost."""
    form = train.form
    n, n_maps = form.look_back + 1, train.series.n_columns if individual else 1
    products = torch.zeros(n_maps, n, n, dtype=torch.float64, device=device)
    targets = torch.zeros(n_maps, n, form.horizon, dtype=torch.float64, device=device)
    for past, future, measured in windows(train, device):
        inputs, wanted = rows_of(past, future, is_relative)
        if measured is not None:  # a row with a missing value weighs nothing
            inputs = inputs * measured.transpose(1, 2).all(2, keepdim=True)
        inputs, wanted = (by_map(rows, individual) for rows in (inputs, wanted))
        products += (inputs.mT @ inputs).double()
        targets += (inputs.mT @ wanted).double()
    sizes = products.diagonal(dim1=1, dim2=2)[:, :-1].mean(1).clamp(min=SMALLEST)
    costs = sizes[:, None, None] * torch.eye(n, dtype=torch.float64, device=device)
    rivals = [linear(torch.linalg.solve(products + ridge * costs, targets), is_relative) for ridge in RIDGES]
    if valid is None:
        return rivals[len(RIDGES) // 2]
    return min(rivals, key=lambda rival: backtest(rival, valid, device).mse)


def rows_of(past: Tensor, future: Tensor, is_relative: bool) -> tuple[Tensor, Tensor]:
    """(B, C, L + 1), with a one for the constant, and (B, C, H)."""
    x, y = past.transpose(1, 2), future.transpose(1, 2)
    if is_relative:
        x, y = x - x[..., -1:], y - x[..., -1:]
    return torch.cat([x, torch.ones_like(x[..., :1])], -1), y


def by_map(rows: Tensor, individual: bool) -> Tensor:
    """(B, C, D) -> the rows of each map: (C, B, D), or of one for all columns: (1, B C, D)"""
    return rows.transpose(0, 1) if individual else rows.flatten(0, 1)[None]


def linear(weights: Tensor, is_relative: bool) -> Rival:
    """Of weights (maps, L + 1, H)."""
    matrices = weights.float()

    def forecast(past: Tensor) -> Tensor:
        last = past[:, -1:] if is_relative else torch.zeros_like(past[:, -1:])
        columns = (past - last).permute(2, 0, 1)  # C, B, L
        return (columns @ matrices[:, :-1] + matrices[:, -1:]).permute(1, 2, 0) + last

    return forecast


def backtest(rival: Rival, part: WindowSet, device: torch.device) -> Errors:
    errors = Errors(part.form.horizon, part.scale.deviations[: part.series.n_columns])
    for past, future, measured in windows(part, device):
        errors.add(rival(past)[..., None], future, measured)
    return errors
