"""All that the loop knows of what is learnt."""

from typing import Protocol, TypeVar

from torch import Tensor, nn

from regard.data.batching.batch import Batch

Sample = tuple[str, str, str]  # source, reference, output


B = TypeVar("B", bound=Batch)


class Task(Protocol[B]):
    """Every draw of chance here is a function of (seed, epoch, index), so a place in the data is two numbers."""

    @property
    def metric(self) -> str:
        """Which of the validated values chooses the best weights."""

    @property
    def higher_is_better(self) -> bool: ...

    def n_batches(self, epoch: int) -> int: ...

    def batch(self, epoch: int, index: int) -> B: ...

    def loss(self, model: nn.Module, batch: B) -> Tensor:
        """The sum, not the mean, over the targets, in nats: the loop divides by what it accumulated."""

    def tensors(self) -> dict[str, Tensor]:
        """What the task carries from batch to batch (for most, nothing), so that a checkpoint holds it."""

    def restore(self, tensors: dict[str, Tensor], model: nn.Module) -> None:
        """Take up what `tensors` gave; {} at the beginning."""

    def validate(self, model: nn.Module) -> dict[str, float]: ...

    def samples(self, model: nn.Module) -> list[Sample]: ...
