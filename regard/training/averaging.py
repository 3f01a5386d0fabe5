"""Averages of weights, which translate better than the last weights alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.runs.checkpoints import Checkpoints
from regard.runs.weights import set_weights, weights_of


class RunningAverage:
    """average ← d · average + (1 - d) · weights after each step, with d = min(decay, (1 + step) / (10 + step)).

    The smaller d of the first steps lets the average forget the weights it began with.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.tensors = {name: tensor.detach().clone() for name, tensor in weights_of(model).items()}
        learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.learned = list(learned.values())  # listed once: to walk a model takes as long as a small update
        self.averages = [self.tensors[name] for name in learned]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        get_ema_multi_avg_fn(decay)(self.averages, self.learned, 0)

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """While this lasts, the model has the average as its weights."""
        self.swap(model)
        try:
            yield
        finally:
            self.swap(model)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        for name, weight in weights_of(model).items():
            before = weight.clone()
            weight.copy_(self.tensors[name])
            self.tensors[name].copy_(before)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])


def average_checkpoints(model: nn.Module, checkpoints: Checkpoints, steps: list[int]) -> None:
    """Give the model the mean of these checkpoints' weights.  Summed in float64, so their order does not matter."""
    sums: dict[str, Tensor] = {}
    newest = checkpoints.load(steps[-1], files=("model",)).tensors["model"]
    for step in steps:
        for name, tensor in checkpoints.load(step, files=("model",)).tensors["model"].items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + tensor.double()
    means = {name: (total / len(steps)).to(newest[name].dtype) for name, total in sums.items()}
    set_weights(model, {**newest, **means}, f"the average of steps {steps}")
