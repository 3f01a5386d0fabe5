"""What the training loop asks of a task, and what a task asks of its data."""

from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.data.notes import Notes

Sample = tuple[str, str, str]  # source, reference, output

B = TypeVar("B", bound=Batch)


class Part(Protocol):
    """The training, validation or test examples, as tokens."""

    @property
    def notes(self) -> Notes:
        """What was dropped or cut."""

    @property
    def lengths(self) -> np.ndarray:
        """What each example counts in a batch."""

    def describe(self) -> str: ...


class Learnable(Protocol[B]):
    """All that the training loop asks of a task."""

    @property
    def metric(self) -> str: ...

    @property
    def higher_is_better(self) -> bool: ...

    def n_batches(self, epoch: int) -> int: ...

    def batch(self, epoch: int, index: int) -> B: ...

    def loss(self, model: Any, batch: B) -> Tensor: ...

    def tensors(self) -> dict[str, Tensor]: ...

    def restore(self, tensors: dict[str, Tensor], model: Any) -> None: ...

    def validate(self, model: Any) -> dict[str, float]: ...

    def samples(self, model: Any) -> list[Sample]: ...
