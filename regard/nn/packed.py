"""Copies of weights for decoding, where a step has few rows and reading W takes most of the time.

On a CPU, `WeightBlocks` has W in the order that is read fastest, the blocks of oneDNN: with W as it is, a product takes
up to five times as long (docs/decisions.md).  `WeightsInt8` has it in 8 bits.  On a GPU, `JoinedWeights` has weights
that take the same rows as one.  Who steps a model owns its copies; nothing is shared.
"""

import platform
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextvars import Token
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.activations import Activation, relu, tanh_gelu
from regard.nn.compiler import compile_failure
from regard.nn.linear import WeightCopies, finished, in_use, joined

SMALLEST = 1 << 17  # numbers: for smaller weights the call costs more than their order gains
ROOM = 1 << 28  # numbers of all copies together, 1 GiB: weights beyond are read as they are
ALIGNED = 8  # rows of a weight: products of other numbers of them take slow kernels on a GPU
FEW_ROWS = 4  # for which a kernel of ours is faster there
TINY = 1e-30  # in place of the largest magnitude of zeros
# Without these instructions sums of 8-bit products overflow, so that x gets 7 bits.
LEVELS = 127 if torch.cpu._is_vnni_supported() else 63
# Activations that kernels take after a product: oneDNN's, and cuBLAS's and ours.
ONEDNN: dict[Activation | None, tuple[str, str]] = {relu: ("relu", ""), tanh_gelu: ("gelu", "tanh")}
NO_ACTIVATION = "none", ""
KERNELS: dict[Activation | None, str] = {relu: "relu", tanh_gelu: "gelu"}
HAS_BLOCKS = platform.machine() in ("x86_64", "AMD64") and torch.backends.mkldnn.is_available()


class Copied(NamedTuple):
    weights: Sequence[Tensor]
    versions: list[int]
    content: Any  # of the kernel's own type; None: they are read as they are


def is_plain(weight: Tensor) -> bool:
    return weight.dtype == torch.float32 and weight.is_contiguous() and weight.shape[1] % 2 == 0


def whole(weights: Sequence[Tensor]) -> Tensor:
    return weights[0] if len(weights) == 1 else torch.cat(list(weights))


class Copies(ABC):
    """`with copies:` around each step of the model.  A weight is copied when it is first read.

    It is copied again when torch counted a change of it.  Optimizers that are fused do not count: whoever trains makes
    new copies for each search.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], Copied] = {}  # of weights that are read together
        self.before: list[Token[WeightCopies | None]] = []

    def __enter__(self) -> None:
        self.before.append(in_use.set(self))

    def __exit__(self, *error: object) -> None:
        in_use.reset(self.before.pop())

    def products(self, x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor] | None:
        copy = self.copy_of(x, [linear.weight for linear in linears])
        if copy is None:
            return None
        bias = None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])
        return self.multiply(x, copy, bias, None, None).split([linear.out_features for linear in linears], -1)

    def product(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor | None:
        copy = self.copy_of(x, [weight])
        return None if copy is None else self.multiply(x, copy, bias, activation, added)

    def copy_of(self, x: Tensor, weights: Sequence[Tensor]) -> Any:
        """Of weights that are multiplied with x; None: they are better read as they are."""
        if not x.is_cpu or x.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return None
        key = tuple(map(id, weights))
        kept = self.known.get(key)
        if kept is None or kept.versions != [weight._version for weight in weights]:
            if not all(isinstance(weight, nn.Parameter) for weight in weights):
                return None
            self.known.pop(key, None)
            content = self.copy(whole(weights)) if self.pays(weights) else None
            versions = [weight._version for weight in weights]
            kept = self.known[key] = Copied(weights, versions, content)
        return kept.content

    def pays(self, weights: Sequence[Tensor]) -> bool:
        size = sum(weight.numel() for weight in weights)
        n_copied = sum(w.numel() for known in self.known.values() if known.content is not None for w in known.weights)
        return HAS_BLOCKS and all(map(is_plain, weights)) and size >= SMALLEST and n_copied + size <= ROOM

    @abstractmethod
    def copy(self, weight: Tensor) -> Any: ...  # of the kernel's own type

    @abstractmethod
    def multiply(
        self, x: Tensor, copy: Any, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor: ...


class WeightBlocks(Copies):
    @cached_property
    def kernel(self) -> Any:
        """Its overload, without a look at each argument in Python at every call; not every build of PyTorch has it."""
        return torch.ops.mkldnn._linear_pointwise.default._op

    def copy(self, weight: Tensor) -> Tensor:
        return torch.ops.mkldnn._reorder_linear_weight(weight.detach())

    def multiply(
        self, x: Tensor, copy: Tensor, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor:
        name, variant = ONEDNN.get(activation, NO_ACTIVATION)
        made = self.kernel(x, copy, bias, name, [], variant)
        return finished(made, None if activation in ONEDNN else activation, added)


class WeightsInt8(Copies):
    """w ~ s q with whole numbers q of 8 bits and one scale s for each output; rows of x likewise, while they are
    multiplied.

    FBGEMM's product takes one scale for all rows of x.  So each row comes with its largest magnitude at LEVELS, as
    whole numbers: then the scale is 1, nothing is left to round, and no row depends on its neighbors.
    """

    levels = torch.tensor(float(LEVELS))

    @cached_property
    def kernel(self) -> Any:
        return torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op

    def copy(self, weight: Tensor) -> Any:
        scales = weight.detach().abs().amax(1).clamp(min=TINY) / 127
        whole = (weight.detach() / scales[:, None]).round().to(torch.int8)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # torch moves quantization to another package, but not this product
            warnings.simplefilter("ignore")
            made = torch._make_per_channel_quantized_tensor(whole, scales.double() / LEVELS, zeros, 0)
            return torch.ops.quantized.linear_prepack(made, None)

    def multiply(
        self, x: Tensor, copy: Any, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True)
        # Zeros become NaN here, and a whole number in the product: times the largest they are zeros again.
        whole = (x * torch.div(self.levels, largest)).round_()
        made = self.kernel(whole, 1.0, LEVELS + 1, copy)
        if bias is None and activation is None and added is not None:
            return torch.addcmul(added, made, largest)
        made = made.mul_(largest) if bias is None else torch.addcmul(bias, made, largest)
        return finished(made, activation, added)


class JoinedWeights:
    """On a GPU: [W1; W2; ..] of products that take the same rows, such as those to queries, keys and values, as one,
    and tables of words with rows of zeros after them, up to a number that fast kernels take.

    Weights must not change while these copies are in use.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Tensor, Tensor | None]] = {}  # by the first weight
        self.before: list[Token[WeightCopies | None]] = []

    def __enter__(self) -> None:
        self.before.append(in_use.set(self))

    def __exit__(self, *error: object) -> None:
        in_use.reset(self.before.pop())

    def product(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor | None:
        if not x.is_cuda or x.dtype != weight.dtype:
            return None
        is_table = bias is None and activation is None and added is None  # of words: these alone have odd sizes
        if not is_table or len(weight) % ALIGNED == 0:
            return multiply_on_gpu(x, weight, bias, activation, added)
        key = id(weight)
        if key not in self.known:
            self.known[key] = F.pad(weight.detach(), (0, 0, 0, -len(weight) % ALIGNED)), None
        return multiply_on_gpu(x, self.known[key][0], None)[..., : len(weight)]

    def products(self, x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor] | None:
        if not x.is_cuda or x.dtype != linears[0].weight.dtype:
            return None
        key = id(linears[0].weight)
        if key not in self.known:
            self.known[key] = joined(linears)
        return multiply_on_gpu(x, *self.known[key]).split([linear.out_features for linear in linears], dim=-1)


def multiply_on_gpu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: Activation | None = None,
    added: Tensor | None = None,
) -> Tensor:
    if added is not None and added.dtype != x.dtype:
        return added + multiply_on_gpu(x, weight, bias, activation)
    if x.numel() <= FEW_ROWS * x.shape[-1] and weight.is_contiguous() and not compile_failure("cuda"):
        from regard.nn.step_kernels import few_rows  # where there is a GPU and a compiler, there is Triton

        if activation is None or activation in KERNELS:
            return few_rows(x, weight, bias, KERNELS.get(activation, ""), added)
        return finished(few_rows(x, weight, bias), activation, added)
    if bias is not None and activation in KERNELS:
        rows = torch._addmm_activation(bias, x.flatten(0, -2), weight.t(), use_gelu=activation is tanh_gelu)
        return finished(rows.view(*x.shape[:-1], -1), None, added)
    return finished(F.linear(x, weight, bias), activation, added)


# By `decoding.weights`, on a CPU.
COPIES: dict[str, type[Copies]] = {"float32": WeightBlocks, "bfloat16": WeightBlocks, "int8": WeightsInt8}
