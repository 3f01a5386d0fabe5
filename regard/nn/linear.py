"""Products with weights: h W^T + b.  In training a plain product, or on a GPU several of the same rows as one; in
decoding on a CPU, where a step has few rows and reading W takes most of the time, in the order that the CPU's library
reads fastest.

What that gains: docs/decisions.md.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 32  # rows
BLOCK = 1024  # rows of W that stay in a CPU's cache while many rows of h meet them


class Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        if is_decoding(x) and x.numel() <= FEW * x.shape[-1]:
            return turned(x, self.weight, self.bias)
        return F.linear(x, self.weight, self.bias)


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
    if not is_decoding(hidden):
        return F.linear(hidden, table, bias)
    if hidden.numel() <= FEW * hidden.shape[-1]:
        return turned(hidden, table, bias)
    rows = hidden.reshape(-1, hidden.shape[-1])
    out = hidden.new_empty(len(rows), len(table))
    for begin in range(0, len(table), BLOCK):
        block = slice(begin, begin + BLOCK)
        torch.mm(rows, table[block].T, out=out[:, block])
    if bias is not None:
        out += bias
    return out.view(*hidden.shape[:-1], len(table))


def is_decoding(x: Tensor) -> bool:
    return not (x.is_cuda or torch.is_grad_enabled() or x.dtype != torch.float32)


def turned(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(W x^T + b)^T"""
    columns = x.reshape(-1, x.shape[-1]).T
    out = torch.mm(weight, columns) if bias is None else torch.addmm(bias[:, None], weight, columns)
    return out.T.contiguous().view(*x.shape[:-1], len(weight))
