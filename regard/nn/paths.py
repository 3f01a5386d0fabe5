"""The fast paths of attention: fused kernels, of PyTorch and one of ours, that give what the readable path gives.

A path says whether it fits a case and runs it; the first that fits is taken, and `docs/attention.md` has the table of
which case goes where.  A new path is one entry of `FAST_PATHS`; the tests hold every entry equal to the equation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.compiler import compile_failure
from regard.nn.layout import SHORT, Layout, Ragged, Rectangle
from regard.nn.positions import Position
from regard.nn.sight import Local, Sight, causal, everywhere, visible
from regard.nn.windows import Blocks

# `python -m bench paths` compares the paths; its table is in docs/results.md.
FLEX_FROM = 4096  # keys: making a block mask takes 6 to 10 ms, which shorter rectangles do not win back
SMALLEST_BLOCK = 64  # queries: products of smaller blocks would not be worth their number
BLOCKS_FROM = 4  # blocks of a sequence: each looks at up to three


@dataclass
class Case:
    """One call of attention: queries, keys and values (rows, H, E), how they lie, and who may look at whom."""

    queries: Tensor
    layout: Layout
    keys: Tensor
    values: Tensor
    key_layout: Layout
    sight: Sight
    scale: float | None
    position: Position


def stays_flat(case: Case) -> bool:
    """Whether there is a kernel that works on ragged rows as they are, in half precision on CUDA."""
    return (
        case.queries.is_cuda
        and half_precision(case)
        and case.scale is not None
        and not case.position.has_bias
        and isinstance(case.layout, Ragged)
        and isinstance(case.key_layout, Ragged)
        and case.sight.band() is not None
        and case.values.shape[-1] == case.queries.shape[-1]
    )


def fits_short(case: Case) -> bool:
    return (
        stays_flat(case)
        and max(case.layout.longest, case.key_layout.longest) <= SHORT
        and case.queries.shape[-1] in (16, 32, 64)  # tiles of 128 by 128 are too large for many GPUs
        and (torch.compiler.is_compiling() or not compile_failure("cuda"))
    )


def run_short(case: Case) -> Tensor:
    """Ragged queries against ragged keys, a sequence at a time (CUDA, half precision)."""
    from regard.nn.kernels import attend_short  # where there is a GPU and a compiler, there is Triton

    assert isinstance(case.layout, Ragged) and isinstance(case.key_layout, Ragged) and case.scale is not None
    left, right = (int(min(reach, SHORT)) for reach in case.sight.band() or (0, 0))
    longest = max(case.layout.longest, case.key_layout.longest)
    offsets = case.layout.offsets, case.key_layout.offsets
    out = attend_short(*computed_heads(case), *offsets, longest, left, right, case.scale)
    assert isinstance(out, Tensor)
    return out


def fits_varlen(case: Case) -> bool:
    return (
        stays_flat(case)
        and (case.layout is case.key_layout or case.sight.band() == everywhere.band())  # it lays bands from the ends
        # For rectangles there are faster kernels, unless most of a rectangle is not looked at.
        and (is_windowed(case.sight.local()) or not (case.layout.is_full and case.key_layout.is_full))
        and case.queries.shape[-1] % 8 == 0
        and case.queries.shape[-1] <= 256
    )


def run_varlen(case: Case) -> Tensor:
    """Ragged queries against ragged keys without any padding (flash attention, CUDA, half precision)."""
    from torch.nn.attention.varlen import varlen_attn  # CUDA builds only

    assert isinstance(case.layout, Ragged) and isinstance(case.key_layout, Ragged)
    left, right = (-1 if reach == float("inf") else int(reach) for reach in case.sight.band() or (0, 0))  # -1: no limit
    offsets, longest = (case.layout.offsets, case.key_layout.offsets), (case.layout.longest, case.key_layout.longest)
    out = varlen_attn(*computed_heads(case), *offsets, *longest, scale=case.scale, window_size=(left, right))
    assert isinstance(out, Tensor)
    return out


def is_plain(case: Case) -> bool:
    """Whether all rows may be looked at, or all before: kernels know this without a mask.  Every sequence begins at 0
    and its padding lies in its future, so that nobody looks at it."""
    if case.position.has_bias:
        return False
    is_full = case.layout.is_full and case.key_layout.is_full
    return (case.sight is everywhere and is_full) or (case.sight is causal and case.layout is case.key_layout)


def fits_flex(case: Case) -> bool:
    d_head = case.queries.shape[-1]
    return (
        case.queries.is_cuda
        and not is_plain(case)
        and half_precision(case)  # in float32 its products are rounded to tf32
        and case.scale is not None
        and not case.position.learns_bias  # its gradient would be lost
        and isinstance(case.layout, Ragged)  # a decoding step has another shape every time, each to be compiled
        and case.key_layout.longest >= FLEX_FROM
        and d_head in (16, 32, 64, 128, 256)
    )


def run_flex(case: Case) -> Tensor:
    """FlexAttention over the padded rectangle: the rule becomes a block mask, whole blocks of it are skipped."""
    from torch.nn.attention.flex_attention import create_block_mask

    starts, lengths, sight, position = case.layout.starts, case.key_layout.lengths, case.sight, case.position

    def place(b: Tensor, q: Tensor) -> Tensor:
        return q if starts is None else starts[b] + q

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return sight.allows(place(b, q), k, b) & (k < lengths[b])

    def add_bias(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        bias = position.bias(place(b, q)[None, None], k[None])  # 1 H 1 1
        return score + bias[0, h, 0, 0]

    sizes = case.key_layout.n_sequences, None, case.layout.longest, case.key_layout.longest

    def make() -> Any:
        return create_block_mask(allows, *sizes, device=case.queries.device)

    mask = sight.once("flex", case.layout, case.key_layout, make)
    heads = (rows.to(autocast_dtype(case)) for rows in padded_heads(case))
    score_mod = add_bias if position.has_bias else None
    out = compiled_flex()(*heads, score_mod=score_mod, block_mask=mask, scale=case.scale)
    return case.layout.flatten(out.transpose(1, 2))


@cache
def compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def fits_step(case: Case) -> bool:
    """Whether each query looks at all keys of its sequence, as in a step of decoding, and our kernel can do it."""
    keys = case.key_layout
    return (
        case.queries.is_cuda
        and isinstance(case.layout, Rectangle)
        and isinstance(keys, Rectangle)
        and keys.starts is None
        and case.scale is not None
        and not case.position.has_bias
        and (case.sight is everywhere or (case.sight is causal and case.layout.longest == 1))
        and case.queries.shape[-1] == case.values.shape[-1]
        and case.queries.shape[-1] in (16, 32, 64, 128, 256)
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not compile_failure("cuda")
    )


def run_step(case: Case, ancestors: Tensor | None, new: tuple[Tensor, Tensor] | None) -> Tensor:
    """A few queries of each sequence, against as many of its keys as it has (CUDA)."""
    from regard.nn.step_kernels import attend_step  # where there is a GPU and a compiler, there is Triton

    assert case.scale is not None
    return attend_step(case.queries, case.keys, case.values, case.key_layout.lengths, ancestors, new, case.scale)


def is_windowed(local: Local | None) -> bool:
    return local is not None and min(local.near) >= 0 and max(local.near) < float("inf")


def blocks_of(case: Case) -> Blocks:
    local = case.sight.local()
    assert local is not None
    return Blocks(local, max(SMALLEST_BLOCK, int(max(local.near))), case.layout.longest)


def fits_blocks(case: Case) -> bool:
    return (
        case.scale is not None
        and case.layout is case.key_layout
        and case.layout.starts is None
        and is_windowed(case.sight.local())
        and case.layout.longest >= BLOCKS_FROM * blocks_of(case).size
        and not torch.compiler.is_exporting()
    )


@torch.compiler.disable  # where lengths are symbols, the compiler of torch 2.11 fails to split them into blocks
def run_blocks(case: Case) -> Tensor:
    """scaled_dot_product_attention of blocks of queries and the keys near them; global rows have a product of their
    own.  Time and memory grow with the length, not with its square."""
    blocks, position, layout, dtype = blocks_of(case), case.position, case.layout, autocast_dtype(case)
    queries, keys, values = (rows.to(dtype) for rows in padded_heads(case))
    masks = case.sight.once("blocks", layout, layout, lambda: blocks.masks(case.sight, layout, dtype))
    found = []
    for section, mask in masks.sections:
        if position.has_bias:
            mask = mask + blocks.bias(position, section, mask.device).to(dtype)
        of_section = blocks.cut(queries, section.begin, section.end)  # B n H size E
        mask = mask.expand(*of_section.shape[:2], -1, -1, -1).flatten(0, 1)
        near = blocks.neighbors(keys, section).flatten(0, 1), blocks.neighbors(values, section).flatten(0, 1)
        out = F.scaled_dot_product_attention(of_section.flatten(0, 1), *near, attn_mask=mask, scale=case.scale)
        found.append(out.unflatten(0, of_section.shape[:2]))
    out = blocks.join(found)
    if n := blocks.n_global:
        mask, places = masks.of_global, torch.arange(blocks.reach, device=queries.device)
        if position.has_bias:
            mask = mask + position.bias(places[None, :n], places).to(dtype)
        reached = keys[:, :, : blocks.reach], values[:, :, : blocks.reach]
        of_global = F.scaled_dot_product_attention(queries[:, :, :n], *reached, attn_mask=mask, scale=case.scale)
        out = torch.cat([of_global, out[:, :, n:]], 2)
    return layout.flatten(out.transpose(1, 2))


def fits_padded(case: Case) -> bool:
    return (
        case.scale is not None
        and case.key_layout.longest > 1  # over one key there is nothing to weigh, and the equation is exact
        # A graph for other tools cannot take the kernel apart where what is added to the scores is learned.
        and not (torch.compiler.is_exporting() and case.position.learns_bias)
    )


def run_padded(case: Case) -> Tensor:
    """scaled_dot_product_attention over the padded rectangle: padding exists inside attention only.
    Heads that share keys may be so many queries of one head, where each sequence has one row (`takes_groups`)."""
    queries, keys, values = padded_heads(case)
    heads, n_shared = queries.shape, keys.shape[1]
    if heads[1] != n_shared:
        queries = queries.reshape(heads[0], n_shared, heads[1] // n_shared, heads[3])
    blind: Tensor | None = None
    if is_plain(case):
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=case.sight is causal, scale=case.scale)
    else:
        sides = case.layout, case.key_layout
        mask = case.sight.once("padded", *sides, lambda: visible(case.sight, *sides))
        mask = None if mask is None else mask[:, None]
        if mask is not None and case.sight.band() is None:  # within a band every query sees at least itself, or all
            # Kernels differ on a query that sees nothing, and not all give zeros: let it see, then forget what it saw.
            blind = ~mask.any(-1)[:, 0].expand(case.layout.n_sequences, case.layout.longest)  # B Q
            mask = mask | blind[:, None, :, None]
        if case.position.has_bias:
            places = torch.arange(case.key_layout.longest, device=queries.device)
            bias = case.position.bias(case.layout.places_among(case.key_layout), places).to(queries.dtype)
            mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=case.scale)
    rows = case.layout.flatten(out.reshape(*heads[:3], out.shape[-1]).transpose(1, 2))
    return rows if blind is None else rows.masked_fill(case.layout.flatten(blind)[..., None, None], 0)


def padded_heads(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as (B, H, T, E)."""
    keys, values = case.key_layout.pad(case.keys), case.key_layout.pad(case.values)
    return case.layout.pad(case.queries).transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2)


def computed_heads(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, in the precision of products."""
    dtype = autocast_dtype(case)
    return case.queries.to(dtype), case.keys.to(dtype), case.values.to(dtype)


def half_precision(case: Case) -> bool:
    return autocast_dtype(case) in (torch.float16, torch.bfloat16)


def autocast_dtype(case: Case) -> torch.dtype:
    kind = case.queries.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else case.queries.dtype


FAST_PATHS: dict[str, tuple[Callable[[Case], bool], Callable[[Case], Tensor]]] = {
    "short": (fits_short, run_short),
    "varlen": (fits_varlen, run_varlen),
    "blocks": (fits_blocks, run_blocks),
    "flex": (fits_flex, run_flex),
    "padded": (fits_padded, run_padded),
}
