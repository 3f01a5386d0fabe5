"""The product with the output table, by far the largest matrix of a small decoder."""

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 1024  # words; a block of the table stays in a CPU's cache while all rows meet it


def logits(hidden: Tensor, table: Tensor) -> Tensor:
    """h W^T: hidden states (..., D) and the table (V, D) -> (..., V).

    On a CPU the library's own blocks suit long tables badly, so that decoding goes through the table block by block.
    """
    if hidden.is_cuda or torch.is_grad_enabled() or hidden.dtype != torch.float32:
        return F.linear(hidden, table)
    rows = hidden.reshape(-1, hidden.shape[-1])
    out = hidden.new_empty(len(rows), len(table))
    for begin in range(0, len(table), BLOCK):
        block = slice(begin, begin + BLOCK)
        torch.mm(rows, table[block].T, out=out[:, block])
    return out.view(*hidden.shape[:-1], len(table))
