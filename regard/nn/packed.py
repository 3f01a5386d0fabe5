"""Copies of weights for decoding on a CPU, where a step has few rows and reading W takes most of the time.

`WeightBlocks` has W in the order that is read fastest, the blocks of oneDNN: with W as it is, a product takes up to
five times as long (docs/decisions.md).  Who steps a model owns its copies; nothing is shared.
"""

import platform
from abc import ABC, abstractmethod
from contextvars import Token
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn.linear import WeightCopies, in_use

SMALLEST = 1 << 17  # numbers: for smaller weights the call costs more than their order gains
ROOM = 1 << 28  # numbers of all copies together, 1 GiB: weights beyond are read as they are
HAS_BLOCKS = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()


class Copies(ABC):
    """`with copies:` around each step of the model.  A weight is copied when it is first read.

    It is copied again when torch counted a change of it.  Optimizers that are fused do not count: whoever trains makes
    new copies for each search.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, int, Any]] = {}  # of a weight: itself, its version, its copy
        self.before: list[Token[WeightCopies | None]] = []

    def __enter__(self) -> None:
        self.before.append(in_use.set(self))

    def __exit__(self, *error: object) -> None:
        in_use.reset(self.before.pop())

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        if not isinstance(weight, nn.Parameter) or x.device.type != "cpu" or x.dtype != torch.float32:
            return None
        if torch.is_autocast_enabled("cpu"):
            return None
        found = self.known.get(id(weight))
        if found is None or found[1] != weight._version:
            found = self.known[id(weight)] = weight, weight._version, self.copy(weight) if self.pays(weight) else None
        return None if found[2] is None else self.multiply(x, found[2], bias)

    def pays(self, weight: Tensor) -> bool:
        is_plain = weight.dtype == torch.float32 and weight.is_contiguous() and weight.shape[1] % 2 == 0
        n_copied = sum(other.numel() for other, _, copy in self.known.values() if copy is not None)
        return HAS_BLOCKS and is_plain and weight.numel() >= SMALLEST and n_copied + weight.numel() <= ROOM

    @abstractmethod
    def copy(self, weight: Tensor) -> Any: ...  # of the kernel's own type

    @abstractmethod
    def multiply(self, x: Tensor, copy: Any, bias: Tensor | None) -> Tensor: ...


class WeightBlocks(Copies):
    def copy(self, weight: Tensor) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach())

    def multiply(self, x: Tensor, copy: Tensor, bias: Tensor | None) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, copy, bias, "none", [], "")
