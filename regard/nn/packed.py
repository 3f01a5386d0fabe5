"""Weights copied once into the order in which a CPU's products read them fastest, the blocks of oneDNN.

When the rows are few, as in a step of decoding, a product with weights as they are takes up to five times as long; the
figures are in docs/decisions.md.
"""

import platform
from contextvars import ContextVar
from threading import Lock

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

SMALLEST = 1 << 17  # numbers: for smaller weights the call costs more than their order gains
ROOM = 1 << 28  # numbers of all copies together, 1 GiB: weights beyond are read as they are
HAS_BLOCKS = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()

copies = WeakTensorKeyDictionary()  # weight -> (the sums of its bits when it was copied, its copy)
one_at_a_time = Lock()


class PackedReading:
    """The steps of one search: `with reading:` around each.

    While they last no weight changes, so that a copy is compared with its weight once, not at every step.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, Tensor | None]] = {}

    def __enter__(self) -> None:
        self.before = current.set(self)

    def __exit__(self, *error: object) -> None:
        current.reset(self.before)

    def blocks(self, weight: Tensor) -> Tensor | None:
        if id(weight) not in self.known:
            self.known[id(weight)] = weight, up_to_date(weight) if pays(weight) else None
        return self.known[id(weight)][1]


current: ContextVar[PackedReading | None] = ContextVar("current", default=None)


def blocks(x: Tensor, weight: Tensor) -> Tensor | None:
    """A weight in blocks, for its product with x.  None: better as it is."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or not isinstance(weight, nn.Parameter):
        return None
    reading = current.get()
    if reading is None or x.device.type != "cpu" or x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return None
    return reading.blocks(weight)


def pays(weight: Tensor) -> bool:
    is_plain = weight.dtype == torch.float32 and weight.is_contiguous() and weight.shape[1] % 2 == 0
    return HAS_BLOCKS and is_plain and weight.numel() >= SMALLEST


def up_to_date(weight: Tensor) -> Tensor | None:
    """The copy made before, unless the bits of some row have another sum since.  None: there is no room.

    The version that torch counts would not do: fused optimizers, and who writes to `.data`, do not count it up.
    """
    sums = weight.detach().view(torch.int64).sum(1)
    with one_at_a_time:
        before, packed = copies.get(weight, (None, None))
        if before is not None and torch.equal(before, sums):
            return packed
        copies.pop(weight, None)
        if weight.numel() + sum(other.numel() for other in copies) > ROOM:
            return None
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        copies[weight] = sums, packed
        return packed


def product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b, for a weight in blocks."""
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
