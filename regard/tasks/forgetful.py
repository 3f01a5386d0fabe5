"""What most tasks answer when a checkpoint asks what they carry from batch to batch."""

from typing import Any

from torch import Tensor


class Forgetful:
    """A task whose batches know nothing of each other."""

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor], model: Any) -> None:
        assert not tensors, "nothing was carried from batch to batch"
