"""Windows of series as batches, and what a model forecasts of each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.data.batching.packing import cut
from regard.data.series.windows import WindowSet
from regard.models.forecaster import Forecaster
from regard.processes import spread

GATHERED = 16  # batches whose forecasts are held at once, among all processes


@dataclass(frozen=True)
class WindowBatch(Batch):
    past: Tensor  # B, L, C + seen
    features: Tensor  # B, L + H, known
    future: Tensor  # B, H, C
    measured: Tensor | None  # B, H, C; None: all of the future was measured
    n_measured: int

    @property
    def n_targets(self) -> int:
        return self.n_measured

    @property
    def n_tokens(self) -> int:
        """Steps, of past and future."""
        return len(self.past) * (self.past.shape[1] + self.future.shape[1])


def collate_windows(part: WindowSet, chosen: np.ndarray) -> WindowBatch:
    past, features, future, measured = part.read(chosen)
    n_measured = future.numel() if measured is None else int(measured.sum())
    return WindowBatch([part.where(i) for i in chosen.tolist()], past, features, future, measured, n_measured)


@torch.no_grad()
def forecast_all(model: Forecaster, part: WindowSet, budget: int) -> Iterator[tuple[WindowBatch, Tensor]]:
    """Every window of a part, in order, with its forecast (B, H, C, outputs), both on the model's device."""
    groups = cut(np.arange(len(part)), part.lengths, budget)
    for first in range(0, len(groups), GATHERED):
        numbers, own = range(first, min(first + GATHERED, len(groups))), dict[int, WindowBatch]()

        def forecast(number: int, own: dict[int, WindowBatch] = own) -> Tensor:
            own[number] = batch = collate_windows(part, groups[number]).to(model.device)
            return model(batch.past, batch.features).float()

        for number, outputs in zip(numbers, spread(numbers, forecast), strict=True):
            batch = own.get(number) or collate_windows(part, groups[number]).to(model.device)
            yield batch, outputs.to(model.device)
