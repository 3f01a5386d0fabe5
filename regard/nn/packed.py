"""Weights copied once into the order in which a CPU's products read them fastest, the blocks of oneDNN.

A product with weights as they are copies them into such blocks each time, and when the rows are few, as in a step of
decoding, that takes longer than the arithmetic.  The gain: docs/decisions.md.
"""

import platform
from threading import Lock

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

SMALLEST = 1 << 17  # numbers: for smaller weights the call costs more than their order gains
ROOM = 1 << 28  # numbers of all copies together, 1 GiB: weights beyond are read as they are
HAS_BLOCKS = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()

copies = WeakTensorKeyDictionary()  # weight -> (where it was and how often written when it was copied, its copy)
one_at_a_time = Lock()


def pack(weight: Tensor) -> Tensor | None:
    """A weight in blocks: the copy made before, unless the weight has changed since.  None: better as it is."""
    if not (HAS_BLOCKS and weight.numel() >= SMALLEST and can_be_followed(weight)):
        return None
    state = weight.data_ptr(), weight._version
    before, packed = copies.get(weight, (None, None))
    return packed if before == state else copy(weight, state)


def can_be_followed(weight: Tensor) -> bool:
    """Whether it is there for more than one product, and its changes are counted."""
    return isinstance(weight, nn.Parameter) and weight.dtype == torch.float32 and not weight.is_inference()


def copy(weight: Tensor, state: tuple[int, int]) -> Tensor | None:
    with one_at_a_time:
        copies.pop(weight, None)
        if weight.numel() + sum(other.numel() for other in copies) > ROOM:
            return None
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        copies[weight] = state, packed
        return packed


def product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b, for a weight in blocks."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return made
