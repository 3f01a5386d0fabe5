"""Products with weights: h W^T + b.  In training a plain product, or on a GPU several of the same rows as one; in
decoding, whoever steps the model may have copies of weights that are read faster (`regard.nn.packed`).
"""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.activations import Activation


class WeightCopies(Protocol):
    def product(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, activation: Activation | None, added: Tensor | None
    ) -> Tensor | None:
        """added + f(x W^T + b) by a copy of W, where there are an f and rows to add; None: W is better read as it
        is."""

    def products(self, x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor] | None:
        """What each of them makes of the same rows; None: they are better taken one after the other."""


class OutputRows(Protocol):
    def __call__(self, table: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The rows (W, D) of an output table (V, D) that are wanted, and what is added to each."""


narrowed: ContextVar[OutputRows | None] = ContextVar("narrowed", default=None)  # of the step that runs now: a shortlist
in_use: ContextVar[WeightCopies | None] = ContextVar("in_use", default=None)  # by the step that runs now


def n_weights(*modules: nn.Module) -> int:
    """The numbers in their matrices: how many multiplications take a row through them."""
    return sum(p.numel() for module in modules for p in module.parameters() if p.ndim > 1)


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.weight, self.bias)


def product(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: Activation | None = None,
    added: Tensor | None = None,
) -> Tensor:
    """x W^T + b; f of it, where there is an f; and rows added to it, where there are any"""
    copies = copies_in_use()
    by_copy = None if copies is None else copies.product(x, weight, bias, activation, added)
    return finished(F.linear(x, weight, bias), activation, added) if by_copy is None else by_copy


def finished(made: Tensor, activation: Activation | None, added: Tensor | None) -> Tensor:
    made = made if activation is None else activation(made)
    return made if added is None else added + made


def activated(linear: nn.Module, x: Tensor, activation: Activation) -> Tensor:
    """f(x W^T + b)"""
    if type(linear) is Linear:  # an adapted one has a product of its own
        return product(x, linear.weight, linear.bias, activation)
    return activation(linear(x))


def onto(added: Tensor | None, linear: nn.Module, x: Tensor) -> Tensor:
    """added + x W^T + b; where nothing is to be added, the product alone"""
    if type(linear) is Linear:
        return product(x, linear.weight, linear.bias, added=added)
    return finished(linear(x), None, added)


def copies_in_use() -> WeightCopies | None:
    return None if torch.compiler.is_compiling() or torch.is_grad_enabled() else in_use.get()


def products(x: Tensor, linears: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What each of them makes of the same rows: [x W1^T + b1, x W2^T + b2, ..]"""
    plain = [linear for linear in linears if type(linear) is Linear]  # an adapted one has a product of its own
    if len(plain) == len(linears):
        if x.is_cuda and torch.is_grad_enabled():
            return at_once(x, plain)
        copies = copies_in_use()
        by_copies = None if copies is None else copies.products(x, plain)
        if by_copies is not None:
            return by_copies
    return [linear(x) for linear in linears]


def at_once(x: Tensor, linears: Sequence[nn.Linear]) -> Sequence[Tensor]:
    """The same as one large product, with which a GPU is busier than with several small ones."""
    return F.linear(x, *joined(linears)).split([linear.out_features for linear in linears], dim=-1)


def joined(linears: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Weights and biases, one after the other."""
    weight = torch.cat([linear.weight for linear in linears])
    return weight, None if linears[0].bias is None else torch.cat([linear.bias for linear in linears])


def as_computed(x: Tensor) -> Tensor:
    """In the precision in which products are taken: half, under autocast."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


def logits(hidden: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
    """Hidden states (..., D), the output table (V, D) and what is added (V) -> (..., V)."""
    if not torch.compiler.is_compiling() and (rows := narrowed.get()) is not None:
        table, bias = rows(table, bias)
    return product(hidden, table, bias)
