"""The fast paths of attention: fused kernels, of PyTorch and one of ours, that give what the readable path gives.

A path says whether it fits a case and runs it; the first that fits is taken, and `docs/attention.md` has the table of
which case goes where.  A new path is one entry of `FAST_PATHS`; the tests hold every entry equal to the equation.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.case import Case, autocast_dtype, half_precision, padded_heads
from regard.nn.compiler import compile_failure
from regard.nn.flat_paths import fits_last, fits_short, fits_varlen, run_last, run_short, run_varlen
from regard.nn.layout import Ragged, Rectangle
from regard.nn.sight import NO_LIMIT, Band, causal, everywhere, is_windowed, visible
from regard.nn.windows import Blocks

# `python -m bench paths` compares the paths; its table is in docs/results.md.
FLEX_FROM = 4096  # keys: making a block mask takes 6 to 10 ms, which shorter rectangles do not win back
SMALLEST_BLOCK = 64  # queries: products of smaller blocks would not be worth their number
BLOCKS_FROM = 4  # blocks of a sequence: each looks at up to three


def is_plain(case: Case) -> bool:
    """Whether all rows may be looked at, or all before: kernels know this without a mask.  Every sequence begins at 0
    and its padding lies in its future, so that nobody looks at it."""
    if case.position.has_bias:
        return False
    band, is_full = reached(case), case.layout.is_full and case.key_layout.is_full
    return (band == everywhere.band() and is_full) or (band == causal.band() and case.layout is case.key_layout)


def reached(case: Case) -> Band | None:
    """The rule as a band; a side that reaches past the ends of all sequences has no limit."""
    band, furthest = case.sight.band(), case.layout.longest - 1
    if band is None or case.layout is not case.key_layout or torch.compiler.is_exporting():  # of graphs for any length
        return band
    infinite = NO_LIMIT[0]
    left, right = (infinite if 0 < side < infinite and 0 < furthest <= side else side for side in band)
    return left, right


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
    outputs = []
    for section, mask in masks.sections:
        if position.has_bias:
            mask = mask + blocks.bias(position, section, mask.device).to(dtype)
        of_section = blocks.cut(queries, section.begin, section.end)  # B n H size E
        mask = mask.expand(*of_section.shape[:2], -1, -1, -1).flatten(0, 1)
        near = blocks.neighbors(keys, section).flatten(0, 1), blocks.neighbors(values, section).flatten(0, 1)
        out = F.scaled_dot_product_attention(of_section.flatten(0, 1), *near, attn_mask=mask, scale=case.scale)
        outputs.append(out.unflatten(0, of_section.shape[:2]))
    out = blocks.join(outputs)
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
        is_causal = reached(case) == causal.band()
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=is_causal, scale=case.scale)
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


FAST_PATHS: dict[str, tuple[Callable[[Case], bool], Callable[[Case], Tensor]]] = {
    "short": (fits_short, run_short),
    "varlen": (fits_varlen, run_varlen),
    "last": (fits_last, run_last),
    "blocks": (fits_blocks, run_blocks),
    "flex": (fits_flex, run_flex),
    "padded": (fits_padded, run_padded),
}
