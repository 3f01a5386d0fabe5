"""Kernels of Triton for a step of decoding on a GPU: a new key and value are written after those of a row while its
queries look at all of them, and the best next words are found in one pass over the logits.

Sums are taken in float32.  How many numbers are added at a time depends on the sizes, so that rounding does, too.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

SIZES = ((256, (256, 8)), (2048, (64, 1)), (1 << 62, (32, 1)))  # for fewer programs than this: keys at a time, warps
PART = 4096  # columns of logits for one program
# Of a weight with fewer outputs than this: outputs and inputs that are read at a time, warps.
PRODUCTS = ((8192, (2, 4096, 4)), (1 << 62, (4, 512, 1)))


def attend_step(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    lengths: Tensor,
    ancestors: Tensor | None,
    new: tuple[Tensor, Tensor] | None,
    scale: float,
) -> Tensor:
    """softmax(Q K^T scale) V: queries (B, Q, H, E) look at the first lengths[b] of keys and values (B, T, G, E).

    H / G heads of queries share one of keys.  Where there are `ancestors` (B, T), the key of place t of sequence b is
    the one at [ancestors[b, t], t].  Where there are `new` ones (B, G, E), those are the last, and are written there;
    then Q is 1.
    """
    n_sequences, n_queries, n_heads, d_head = queries.shape
    queries = queries if queries.stride()[2:] == (d_head, 1) else queries.contiguous()
    out = torch.empty_like(queries, memory_format=torch.contiguous_format)
    # Few programs wait for memory, so that each asks for many keys at once; many programs hide each other's waiting.
    n_programs = n_sequences * n_queries * n_heads
    n_keys, n_warps = next(sizes for fewer, sizes in SIZES if n_programs < fewer)
    new_keys, new_values = (keys, values) if new is None else new
    attend_kernel[(n_sequences * n_queries, n_heads)](
        queries, keys, values, out, lengths, lengths if ancestors is None else ancestors, new_keys, new_values,
        *queries.stride()[:2], *keys.stride()[:3], *values.stride()[:3], *new_keys.stride()[:2],
        *new_values.stride()[:2], 0 if ancestors is None else ancestors.stride(0), n_queries, n_heads,
        n_heads // keys.shape[2], scale, D_HEAD=d_head, HAS_ANCESTORS=ancestors is not None, HAS_NEW=new is not None,
        KEYS=n_keys, num_warps=n_warps,
    )  # fmt: skip
    return out


@triton.jit
def attend_kernel(  # type: ignore[no-untyped-def]
    queries, keys, values, out, lengths, ancestors, new_keys, new_values,
    q_row, q_place, k_row, k_place, k_head, v_row, v_place, v_head, nk_row, nk_head, nv_row, nv_head, a_row,
    n_queries, n_heads, n_sharing, scale,
    D_HEAD: tl.constexpr, HAS_ANCESTORS: tl.constexpr, HAS_NEW: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """One head of one query.  The softmax is taken as the keys come: highest score, sum and mixture are kept."""
    query, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sequence = query // n_queries
    length = tl.load(lengths + sequence)
    numbers = tl.arange(0, D_HEAD)
    place = (query * n_heads + head) * D_HEAD + numbers
    asked = queries + sequence * q_row + (query % n_queries) * q_place + head * D_HEAD
    q = tl.load(asked + numbers).to(tl.float32) * scale
    shared = head // n_sharing
    keys += shared * k_head
    values += shared * v_head
    highest = -float("inf")
    size = 0.0
    mixed = tl.zeros([D_HEAD], tl.float32)
    n_old = length
    if HAS_NEW:
        n_old = length - 1
        new_k = tl.load(new_keys + sequence * nk_row + shared * nk_head + numbers).to(keys.dtype.element_ty)
        new_v = tl.load(new_values + sequence * nv_row + shared * nv_head + numbers).to(values.dtype.element_ty)
        is_first = numbers < tl.where(head % n_sharing == 0, D_HEAD, 0)  # of those that share it: it writes
        tl.store(keys + sequence * k_row + n_old * k_place + numbers, new_k, is_first)
        tl.store(values + sequence * v_row + n_old * v_place + numbers, new_v, is_first)
        highest = tl.sum(new_k.to(tl.float32) * q, 0)
        size += 1.0
        mixed += new_v.to(tl.float32)
    for begin in range(0, n_old, KEYS):
        places = begin + tl.arange(0, KEYS)
        seen = places < n_old
        rows = tl.zeros([KEYS], tl.int64) + sequence
        if HAS_ANCESTORS:
            rows = tl.load(ancestors + sequence * a_row + places, seen, 0)
        at_keys = (rows * k_row + places * k_place)[:, None] + numbers[None, :]
        at_values = (rows * v_row + places * v_place)[:, None] + numbers[None, :]
        k = tl.load(keys + at_keys, seen[:, None], 0.0).to(tl.float32)
        v = tl.load(values + at_values, seen[:, None], 0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(k * q[None, :], 1), -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        shares = tl.exp(scores - higher)
        fade = tl.exp(highest - higher)
        size = size * fade + tl.sum(shares, 0)
        mixed = mixed * fade + tl.sum(shares[:, None] * v, 0)
        highest = higher
    mixed = tl.where(length > 0, mixed / size, 0.0)
    tl.store(out + place, mixed.to(out.dtype.element_ty))


def best(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most probable tokens of each row of logits (rows, V): their log-probabilities, descending, and ids."""
    n_rows, n_columns = logits.shape
    n_parts = triton.cdiv(n_columns, PART)
    shape = n_rows, n_parts, k
    values = torch.empty(shape, dtype=torch.float32, device=logits.device)
    ids = torch.empty(shape, dtype=torch.int64, device=logits.device)
    sizes = torch.empty(n_rows, n_parts, dtype=torch.float32, device=logits.device)
    part_kernel[(n_rows, n_parts)](logits, values, ids, sizes, logits.stride(0), n_columns, K=k, PART=PART, num_warps=8)
    top_values = torch.empty(n_rows, k, dtype=torch.float32, device=logits.device)
    top_ids = torch.empty(n_rows, k, dtype=torch.int64, device=logits.device)
    blocks = triton.next_power_of_2(n_parts), triton.next_power_of_2(n_parts * k)
    join_kernel[(n_rows,)](
        values, ids, sizes, top_values, top_ids, n_parts, K=k, PARTS=blocks[0], CANDIDATES=blocks[1], num_warps=4
    )
    return top_values, top_ids


@triton.jit
def part_kernel(logits, values, ids, sizes, row_stride, n_columns, K: tl.constexpr, PART: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of one part of a row: its k best, and sum_v e^(z_v - the best)."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * PART + tl.arange(0, PART)
    z = tl.load(logits + row * row_stride + columns, columns < n_columns, -float("inf")).to(tl.float32)
    place = row * tl.num_programs(1) + part
    highest = tl.max(z, 0)
    tl.store(sizes + place, tl.sum(tl.where(z > -float("inf"), tl.exp(z - highest), 0.0), 0))
    for i in range(K):
        value = tl.max(z, 0)
        column = tl.min(tl.where(z == value, columns, n_columns + PART), 0)  # the first of equals
        tl.store(values + place * K + i, value)
        tl.store(ids + place * K + i, tl.minimum(column, n_columns - 1).to(tl.int64))
        z = tl.where(columns == column, -float("inf"), z)


@triton.jit
def join_kernel(  # type: ignore[no-untyped-def]
    values, ids, sizes, top_values, top_ids, n_parts, K: tl.constexpr, PARTS: tl.constexpr, CANDIDATES: tl.constexpr
):
    """The k best of a row's parts, and log P = z - log sum_v e^z_v."""
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, PARTS)
    is_part = parts < n_parts
    highest = tl.load(values + (row * n_parts + parts) * K, is_part, -float("inf"))
    best = tl.max(highest, 0)
    size = tl.sum(tl.load(sizes + row * n_parts + parts, is_part, 0.0) * tl.exp(highest - best), 0)
    normalizer = best + tl.log(size)
    candidates = tl.arange(0, CANDIDATES)
    is_one = candidates < n_parts * K
    z = tl.load(values + row * n_parts * K + candidates, is_one, -float("inf"))
    names = tl.load(ids + row * n_parts * K + candidates, is_one, 0)
    for i in range(K):
        value = tl.max(z, 0)
        which = tl.min(tl.where(z == value, candidates, CANDIDATES), 0)
        tl.store(top_values + row * K + i, value - normalizer)
        tl.store(top_ids + row * K + i, tl.sum(tl.where(candidates == which, names, 0), 0))
        z = tl.where(candidates == which, -float("inf"), z)


def few_rows(
    x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "", added: Tensor | None = None
) -> Tensor:
    """x W^T + b for few rows x (..., D): reading W takes the time, so a program asks for all that it needs at once.
    The activation is relu, gelu (by tanh) or none; then rows may be added (..., outputs)."""
    d_out, d_in = weight.shape
    rows = x.reshape(-1, d_in)
    out = torch.empty(*x.shape[:-1], d_out, dtype=x.dtype, device=x.device)
    n_outputs, n_inputs, n_warps = next(sizes for fewer, sizes in PRODUCTS if d_out < fewer)
    n_inputs = min(triton.next_power_of_2(d_in), n_inputs)
    more = out if added is None else added.reshape(-1, d_out)
    product_kernel[(triton.cdiv(d_out, n_outputs), len(rows))](
        rows, weight, weight if bias is None else bias, more, out, d_in, d_out, rows.stride(0), more.stride(-2),
        HAS_BIAS=bias is not None, ACTIVATION=activation, IS_ADDED=added is not None, OUTPUTS=n_outputs,
        INPUTS=n_inputs, num_warps=n_warps,
    )  # fmt: skip
    return out


@triton.jit
def product_kernel(  # type: ignore[no-untyped-def]
    rows, weight, bias, added, out, d_in, d_out, row_stride, added_stride,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, IS_ADDED: tl.constexpr,
    OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    outputs = tl.program_id(0).to(tl.int64) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(1).to(tl.int64)
    is_output = outputs < d_out
    products = tl.zeros([OUTPUTS, INPUTS], tl.float32)
    for begin in range(0, d_in, INPUTS):
        columns = begin + tl.arange(0, INPUTS)
        is_input = columns < d_in
        w = tl.load(weight + outputs[:, None] * d_in + columns, is_output[:, None] & is_input, 0.0).to(tl.float32)
        x = tl.load(rows + row * row_stride + columns, is_input, 0.0).to(tl.float32)
        products += w * x[None, :]
    sums = tl.sum(products, 1)
    if HAS_BIAS:
        sums += tl.load(bias + outputs, is_output, 0.0).to(tl.float32)
    if ACTIVATION == "relu":
        sums = tl.maximum(sums, 0.0)
    elif ACTIVATION == "gelu":  # (1 + tanh z) / 2 = sigmoid 2z, where z = sqrt(2 / pi) (x + 0.044715 x^3)
        sums *= tl.sigmoid(1.5957691216057308 * (sums + 0.044715 * sums * sums * sums))
    if IS_ADDED:
        sums += tl.load(added + row * added_stride + outputs, is_output, 0.0).to(tl.float32)
    tl.store(out + row * d_out + outputs, sums.to(out.dtype.element_ty), is_output)


def add_norm(x: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    """LayerNorm(x + added), taken in float32, of rows (..., D)."""
    d = x.shape[-1]
    x = x.contiguous()
    out = torch.empty_like(x)
    more = x if added is None else added.contiguous()
    norm_kernel[(x.numel() // d,)](
        x, more, weight, weight if bias is None else bias, out, d, eps,
        IS_ADDED=added is not None, HAS_BIAS=bias is not None, BLOCK=triton.next_power_of_2(d), num_warps=4,
    )  # fmt: skip
    return out


@triton.jit
def norm_kernel(  # type: ignore[no-untyped-def]
    x, added, weight, bias, out, d, eps, IS_ADDED: tl.constexpr, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    fits = columns < d
    h = tl.load(x + row * d + columns, fits, 0.0).to(tl.float32)
    if IS_ADDED:
        h += tl.load(added + row * d + columns, fits, 0.0).to(tl.float32)
    mean = tl.sum(h, 0) / d
    centered = tl.where(fits, h - mean, 0.0)
    normed = centered / tl.sqrt(tl.sum(centered * centered, 0) / d + eps)
    normed = normed * tl.load(weight + columns, fits, 0.0).to(tl.float32)
    if HAS_BIAS:
        normed += tl.load(bias + columns, fits, 0.0).to(tl.float32)
    tl.store(out + row * d + columns, normed.to(out.dtype.element_ty), fits)
