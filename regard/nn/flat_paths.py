"""Fast paths that take rows as they lie, one sequence after the other (CUDA, half precision, the rule a band)."""

import torch
from torch import Tensor

from regard.nn.case import Case, computed_heads, half_precision
from regard.nn.compiler import compile_failure
from regard.nn.layout import SHORT, Ragged, Rectangle
from regard.nn.sight import everywhere, is_windowed


def stays_flat(case: Case) -> bool:
    """Whether there is a kernel that works on ragged rows as they are, in half precision on CUDA."""
    return (
        case.queries.is_cuda
        and half_precision(case)
        and case.scale is not None
        and isinstance(case.layout, Ragged)
        and isinstance(case.key_layout, Ragged)
        and is_banded(case)
    )


def is_banded(case: Case) -> bool:
    """Whether nothing but a band around the diagonal says who looks at whom, as varlen kernels want it."""
    is_wide = case.values.shape[-1] == case.queries.shape[-1]
    return case.sight.band() is not None and is_wide and not case.position.has_bias


def suits_flash(case: Case) -> bool:
    return case.queries.shape[-1] % 8 == 0 and case.queries.shape[-1] <= 256


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
        and suits_flash(case)
    )


def run_varlen(case: Case) -> Tensor:
    """Ragged queries against ragged keys without any padding (flash attention, CUDA, half precision)."""
    assert isinstance(case.layout, Ragged) and isinstance(case.key_layout, Ragged)
    return flash(case, computed_heads(case), (case.layout.offsets, case.key_layout.offsets))


def fits_last(case: Case) -> bool:
    queries, keys = case.layout, case.key_layout
    return (
        case.queries.is_cuda
        and half_precision(case)
        and case.scale is not None
        and isinstance(queries, Rectangle)
        and isinstance(keys, Rectangle)
        and queries.is_full
        and keys.is_full
        and keys.starts is None
        and queries.n_before is not None
        and queries.n_before + queries.longest == keys.longest
        and is_banded(case)
        and suits_flash(case)
    )


def run_last(case: Case) -> Tensor:
    """Queries that are the last rows of sequences of one length, as those after a memory are (flash attention, which
    lays a band from the ends; CUDA, half precision)."""
    queries, keys = case.layout, case.key_layout
    assert isinstance(queries, Rectangle) and isinstance(keys, Rectangle)
    rows, seen, values = (heads.flatten(0, 1) for heads in computed_heads(case))
    return flash(case, (rows, seen, values), (queries.offsets, keys.offsets)).view(case.queries.shape)


def flash(case: Case, rows: tuple[Tensor, Tensor, Tensor], offsets: tuple[Tensor, Tensor]) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # CUDA builds only

    left, right = (-1 if reach == float("inf") else int(reach) for reach in case.sight.band() or (0, 0))  # -1: no limit
    longest = case.layout.longest, case.key_layout.longest
    out = varlen_attn(*rows, *offsets, *longest, scale=case.scale, window_size=(left, right))
    assert isinstance(out, Tensor)
    return out
