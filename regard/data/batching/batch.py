"""A batch: examples that go through the model together, as flat tensors and their layouts."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from regard.nn.layout import Ragged


@dataclass(frozen=True)
class Batch(ABC):
    lines: list[str]  # where each example came from, such as "train.en:123"

    is_fillable: ClassVar[bool] = False  # whether `filled` gives batches of few shapes, which can be recorded

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """How many predictions the loss is a sum of."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """How many tokens the model reads, for the rate."""

    def filled(self) -> Self:
        """The same to learn from, in one of few shapes where `is_fillable`."""
        return self

    def to(self, device: torch.device) -> Self:
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True), lambda layout: layout.to(device))

    def mapped(self, tensors: Callable[[Tensor], Tensor], layouts: Callable[[Ragged], Ragged]) -> Self:
        """The same batch with other copies of its tensors and layouts, also of a batch within it."""
        changed: dict[str, Any] = {}
        for name, part in self.parts().items():
            if isinstance(part, Tensor):
                changed[name] = tensors(part)
            elif isinstance(part, Ragged):
                changed[name] = layouts(part)
            elif isinstance(part, Batch):
                changed[name] = part.mapped(tensors, layouts)
        return replace(self, **changed)

    def parts(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
