"""The running average of weights: it is validated and kept in place of the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from regard.runs.weights import weights_of


class RunningAverage:
    """An average of weights, which translates better than the last weights alone:
    average ← d · average + (1 - d) · weights after each step, with d = min(decay, (1 + step) / (10 + step)).

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
