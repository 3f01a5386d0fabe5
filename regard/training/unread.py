"""Steps whose figures are still on the device: to ask for them after every step would make it wait."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

HELD = 1 / 32  # of a device's memory, which unread steps may hold


@dataclass(frozen=True)
class StepRecord:
    """What is remembered of one step."""

    step: int
    loss: float  # nats a target, as trained (with label smoothing, if any)
    lr: float
    grad_norm: float  # before clipping
    n_tokens: int


@dataclass(frozen=True)
class Unread:
    """A step whose figures are still on the device, and what it takes to run it again."""

    step: int
    lr: float
    n_tokens: int
    figures: Tensor  # loss, gradient norm, bad
    places: list[tuple[int, int]]
    random: dict[str, Tensor]
    carried: dict[str, Tensor]  # what the task had carried up to this step


def is_too_much(steps: Sequence[Unread], room: float) -> bool:
    """Whether what was carried up to these steps fills more of the device than it should: the memory of a
    Transformer-XL is gigabytes in every step."""
    n_bytes = sum(tensor.nbytes for step in steps for tensor in step.carried.values())
    return n_bytes > HELD * room
