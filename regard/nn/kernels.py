"""Kernels of Triton, for a GPU: the attention of short sequences, and the loss of a chunk of logits with its gradient.

Attention: each sequence is one tile, so that the kernels are the equation and its gradient.  Rows are flat (N, H, E),
nothing is padded.  A program has one head of one sequence; no other writes where it writes, so that gradients are the
same every time.  Loss: logits are read from memory once, and the gradient is written over them; `loss_and_gradient` in
`loss.py` is the same, readable.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # columns at a time of logits


@torch.library.custom_op("regard::attend_short", mutates_args=())
def attend_short(
    queries: Tensor, keys: Tensor, values: Tensor, offsets: Tensor, key_offsets: Tensor, longest: int,
    left: int, right: int, scale: float,
) -> Tensor:  # fmt: skip
    """softmax(Q K^T scale) V within each sequence; a query at q sees the keys from q - left to q + right."""
    queries, keys, values = (as_rows(x) for x in (queries, keys, values))
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    n_sequences, n_heads, d_head = len(offsets) - 1, queries.shape[1], queries.shape[2]
    for above, size in tiles(longest):
        forward_kernel[(n_sequences, n_heads)](
            queries, keys, values, out, offsets, key_offsets,
            queries.stride(0), keys.stride(0), values.stride(0), out.stride(0), scale, left, right,
            D_HEAD=d_head, ABOVE=above, TILE=size, num_warps=max(1, size // 16),
        )  # fmt: skip
    return out


@torch.library.custom_op("regard::attend_short_backward", mutates_args=())
def attend_short_backward(
    gradient: Tensor, queries: Tensor, keys: Tensor, values: Tensor, offsets: Tensor, key_offsets: Tensor,
    longest: int, left: int, right: int, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    gradient, queries, keys, values = gradient.contiguous(), as_rows(queries), as_rows(keys), as_rows(values)
    of_queries, of_keys, of_values = empty_as(queries, keys, values)
    n_sequences, n_heads, d_head = len(offsets) - 1, queries.shape[1], queries.shape[2]
    for above, size in tiles(longest):
        backward_kernel[(n_sequences, n_heads)](
            gradient, queries, keys, values, of_queries, of_keys, of_values, offsets, key_offsets,
            queries.stride(0), keys.stride(0), values.stride(0), of_queries.stride(0), scale, left, right,
            D_HEAD=d_head, ABOVE=above, TILE=size, num_warps=max(1, size // 16),
        )  # fmt: skip
    return of_queries, of_keys, of_values


@attend_short.register_fake
def shape_of_output(queries: Tensor, *_: object) -> Tensor:
    return torch.empty_like(queries, memory_format=torch.contiguous_format)


@attend_short_backward.register_fake
def gradient_shapes(gradient: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *_: object) -> tuple[Tensor, ...]:
    return empty_as(queries, keys, values)


def as_rows(x: Tensor) -> Tensor:
    """Rows may lie apart, as where queries, keys and values are one product; the numbers of a row may not."""
    return x if x.stride()[1:] == (x.shape[2], 1) else x.contiguous()


def empty_as(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in tensors)


def keep(ctx: Any, inputs: Any, output: Tensor) -> None:
    *tensors, ctx.longest, ctx.left, ctx.right, ctx.scale = inputs
    ctx.save_for_backward(*tensors)


def give_back(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    gradients = attend_short_backward(gradient, *ctx.saved_tensors, ctx.longest, ctx.left, ctx.right, ctx.scale)
    return *gradients, None, None, None, None, None, None


attend_short.register_autograd(give_back, setup_context=keep)


def tiles(longest: int) -> list[tuple[int, int]]:
    """The launches: each takes the sequences longer than its first number and no longer than its second, its tile.

    So the short ones among long ones have small tiles.  The rows of a tile are a power of two, and no fewer than the
    products of a GPU take.
    """
    largest = max(16, triton.next_power_of_2(longest))
    smallest = min(largest, 32)
    return [(0, smallest)] + [(size // 2, size) for size in (64, 128) if smallest < size <= largest]


@triton.jit
def bounds(offsets, sequence):  # type: ignore[no-untyped-def]
    """Where a sequence begins, and how many rows it has."""
    first = tl.load(offsets + sequence).to(tl.int64)
    return first, tl.load(offsets + sequence + 1) - first


@triton.jit
def read(rows, first, n, stride, head, D_HEAD: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """A head of a sequence, (TILE, D_HEAD): zeros beyond its n rows."""
    row, column = tl.arange(0, TILE)[:, None], tl.arange(0, D_HEAD)[None, :]
    return tl.load(rows + (first + row) * stride + head * D_HEAD + column, row < n, 0.0)


@triton.jit
def write(rows, first, n, stride, head, what, D_HEAD: tl.constexpr, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.arange(0, TILE)[:, None], tl.arange(0, D_HEAD)[None, :]
    tl.store(rows + (first + row) * stride + head * D_HEAD + column, what.to(rows.dtype.element_ty), row < n)


@triton.jit
def weights_of(q, k, n_keys, scale, left, right, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """P = softmax(Q K^T scale) over the keys that may be seen: (TILE, TILE), in float32."""
    row, column = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    may_see = (column < n_keys) & (column <= row + right) & (column >= row - left)
    scores = tl.where(may_see, tl.dot(q, tl.trans(k)) * scale, -1.0e30)
    powers = tl.where(may_see, tl.exp(scores - tl.max(scores, 1)[:, None]), 0.0)
    size = tl.sum(powers, 1)[:, None]
    return powers / tl.where(size > 0, size, 1.0)  # a query that sees nothing gets zeros


@triton.jit
def forward_kernel(  # type: ignore[no-untyped-def]
    queries, keys, values, out, offsets, key_offsets, q_row, k_row, v_row, out_row, scale, left, right,
    D_HEAD: tl.constexpr, ABOVE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """O = P V"""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, n_queries = bounds(offsets, sequence)
    first_key, n_keys = bounds(key_offsets, sequence)
    longest = tl.maximum(n_queries, n_keys)
    if longest <= ABOVE or longest > TILE:
        return
    q = read(queries, first, n_queries, q_row, head, D_HEAD, TILE)
    k = read(keys, first_key, n_keys, k_row, head, D_HEAD, TILE)
    v = read(values, first_key, n_keys, v_row, head, D_HEAD, TILE)
    p = weights_of(q, k, n_keys, scale, left, right, TILE)
    write(out, first, n_queries, out_row, head, tl.dot(p.to(v.dtype), v), D_HEAD, TILE)


@triton.jit
def backward_kernel(  # type: ignore[no-untyped-def]
    gradient, queries, keys, values, of_queries, of_keys, of_values, offsets, key_offsets,
    q_row, k_row, v_row, out_row, scale, left, right, D_HEAD: tl.constexpr, ABOVE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """dV = P^T dO,  dP = dO V^T,  dS = P (dP - sum_k P dP),  dQ = dS K scale,  dK = dS^T Q scale"""
    sequence, head = tl.program_id(0), tl.program_id(1)
    first, n_queries = bounds(offsets, sequence)
    first_key, n_keys = bounds(key_offsets, sequence)
    longest = tl.maximum(n_queries, n_keys)
    if longest <= ABOVE or longest > TILE:
        return
    q = read(queries, first, n_queries, q_row, head, D_HEAD, TILE)
    k = read(keys, first_key, n_keys, k_row, head, D_HEAD, TILE)
    v = read(values, first_key, n_keys, v_row, head, D_HEAD, TILE)
    of_out = read(gradient, first, n_queries, out_row, head, D_HEAD, TILE)
    p = weights_of(q, k, n_keys, scale, left, right, TILE)
    write(of_values, first_key, n_keys, out_row, head, tl.dot(tl.trans(p.to(q.dtype)), of_out), D_HEAD, TILE)
    of_p = tl.dot(of_out, tl.trans(v))
    of_s = (p * (of_p - tl.sum(p * of_p, 1)[:, None]) * scale).to(q.dtype)
    write(of_queries, first, n_queries, out_row, head, tl.dot(of_s, k), D_HEAD, TILE)
    write(of_keys, first_key, n_keys, out_row, head, tl.dot(tl.trans(of_s), q), D_HEAD, TILE)


def loss_and_gradient_by_rows(logits: Tensor, labels: Tensor, smoothing: float, n_words: int) -> tuple[Tensor, Tensor]:
    """Logits (rows, columns), of which the first `n_words` are words; they become their gradient."""
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    by_row[(len(logits),)](logits, labels, losses, logits.shape[1], n_words, smoothing, BLOCK=BLOCK, num_warps=8)
    return losses.sum(), logits


@triton.jit
def by_row(logits, labels, losses, n_columns, n_words, smoothing, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """loss = log sum_v e^z_v - (1 - e) z_label - e/V sum_v z_v;  gradient = softmax(z) - e/V - (1 - e) [v = label]

    Both are 0 where the label is negative: such a row does not count.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * n_columns
    highest = -float("inf")
    size = 0.0  # sum_v e^(z_v - highest), of what was read so far
    total = 0.0
    for begin in range(0, n_words, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        z = tl.load(logits + columns, columns < n_words, -float("inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(z, 0))
        size = size * tl.exp(highest - higher) + tl.sum(tl.exp(z - higher), 0)
        highest = higher
        total += tl.sum(tl.where(columns < n_words, z, 0.0), 0)
    normalizer = highest + tl.log(size)
    label = tl.load(labels + row)
    counts = label >= 0
    share = smoothing / n_words
    own = tl.load(logits + label, counts, 0.0).to(tl.float32)
    tl.store(losses + row, tl.where(counts, normalizer - (1 - smoothing) * own - share * total, 0.0))
    tl.debug_barrier()  # all have read the label's logit before one of them overwrites it
    for begin in range(0, n_columns, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        z = tl.load(logits + columns, columns < n_words, -float("inf")).to(tl.float32)
        gradient = tl.exp(z - normalizer) - share - tl.where(columns == label, 1 - smoothing, 0.0)
        tl.store(logits + columns, tl.where((columns < n_words) & counts, gradient, 0.0), columns < n_columns)
