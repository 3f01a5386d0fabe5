"""Products with weights: h W^T + b.  In training a plain product, or on a GPU several of the same rows as one; in
decoding on a CPU, where a step has few rows and reading W takes most of the time, with a copy of W in the order that is
read fastest, the blocks of oneDNN.  With W as it is a product takes up to five times as long (docs/decisions.md).
"""

import platform
from collections.abc import Sequence
from contextvars import ContextVar
from threading import Lock

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

SMALLEST = 1 << 17  # numbers: for smaller weights the call costs more than their order gains
ROOM = 1 << 28  # numbers of all copies together, 1 GiB: weights beyond are read as they are
HAS_BLOCKS = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()

copies = WeakTensorKeyDictionary()  # weight -> (the sums of its bits when it was copied, its copy)
one_at_a_time = Lock()


def n_weights(*modules: nn.Module) -> int:
    """The numbers in their matrices: how many multiplications take a row through them."""
    return sum(p.numel() for module in modules for p in module.parameters() if p.ndim > 1)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.bias)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b"""
    packed = blocks(x, weight)
    if packed is None:
        return F.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def products(x: Tensor, linears: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What each of them makes of the same rows: [x W1^T + b1, x W2^T + b2, ..]"""
    plain = [linear for linear in linears if type(linear) is Linear]  # an adapted one has a product of its own
    if x.is_cuda and torch.is_grad_enabled() and len(plain) == len(linears):
        return at_once(x, plain)
    return [linear(x) for linear in linears]


def at_once(x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor]:
    """The same as one large product, with which a GPU is busier than with several small ones."""
    weight = torch.cat([linear.weight for linear in linears])
    bias = None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])
    return F.linear(x, weight, bias).split([linear.out_features for linear in linears], dim=-1)


def as_computed(x: Tensor) -> Tensor:
    """In the precision in which products are taken: half, under autocast."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def logits(hidden: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
    """Hidden states (..., D), the output table (V, D) and what is added (V) -> (..., V)."""
    return product(hidden, table, bias)


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
            self.known[id(weight)] = weight, up_to_date(weight) if packing_pays(weight) else None
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


def packing_pays(weight: Tensor) -> bool:
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
