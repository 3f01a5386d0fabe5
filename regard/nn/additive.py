"""The sum of additive attention, v . tanh(q + k), without ever holding queries x keys x width."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = {"cpu": 2**20, "cuda": 2**26}  # numbers at a time: what fits a CPU's cache, or keeps a GPU busy


def plain_additive(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """The equation: queries (..., Q, E), keys (..., K, E) and v (E) -> (..., Q, K)."""
    return (queries[..., :, None, :] + keys[..., None, :, :]).tanh() @ v


@torch.compiler.disable  # a loop whose length is data would be compiled again for every batch
def additive(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """The same, in chunks of queries; the tanh is made again on the way back."""
    together = queries.shape[:-2]  # sequences and heads, alike on both sides
    out = ChunkedAdditive.apply(queries.flatten(0, -3), keys.flatten(0, -3), v.to(queries.dtype))
    return out.unflatten(0, together)


class ChunkedAdditive(torch.autograd.Function):
    """s_qk = sum_e v_e t_qke with t = tanh(q + k).  With the gradient g of s:

    dv_e = sum_qk g_qk t_qke,   dq_qe = v_e sum_k g_qk (1 - t_qke^2),   dk_ke = v_e sum_q g_qk (1 - t_qke^2)
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, v)
        out = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for chunk in chunks(queries, keys):
            out[:, chunk] = hidden(queries[:, chunk], keys) @ v
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        exact = torch.promote_types(v.dtype, torch.float32)  # half precision would lose what many chunks add
        of_queries = torch.empty_like(queries)
        of_keys = torch.zeros_like(keys, dtype=exact)
        of_v = torch.zeros_like(v, dtype=exact)
        for chunk in chunks(queries, keys):
            g = gradient[:, chunk]
            t = hidden(queries[:, chunk], keys)
            of_v += g.flatten() @ t.flatten(0, 2)
            slope = t.square_().neg_().add_(1).mul_(g[..., None])
            of_queries[:, chunk] = slope.sum(2)
            of_keys += slope.sum(1)
        return of_queries * v, (of_keys * v).to(keys.dtype), of_v.to(v.dtype)


def hidden(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[:, :, None] + keys[:, None]).tanh_()  # all sequences and heads, some queries, K, E


def chunks(queries: Tensor, keys: Tensor) -> Iterator[slice]:
    """As many queries at a time as fit into a chunk with all their keys; at least one."""
    size = max(1, CHUNK[queries.device.type] // max(1, keys.numel()))
    for begin in range(0, queries.shape[1], size):
        yield slice(begin, begin + size)
