"""Averages of the weights of many steps, which predict better than the last weights alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.runs.weights import weights_of


class RunningAverage:
    """average ← d · average + (1 - d) · weights after each step."""

    def __init__(self, model: nn.Module, decay: Callable[[int], float]) -> None:
        self.decay = decay  # d of a step
        self.tensors = {name: tensor.detach().clone() for name, tensor in weights_of(model).items()}
        learned = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self.learned = list(learned.values())  # listed once: to walk a model takes as long as a small update
        self.averages = [self.tensors[name] for name in learned]

    @torch.no_grad()
    def update(self, step: int) -> None:
        get_ema_multi_avg_fn(self.decay(step))(self.averages, self.learned, 0)

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


def rising(most: float, step: int) -> float:
    """The smaller d of the first steps lets an average forget the weights it began with."""
    return min(most, (1 + step) / (10 + step))
