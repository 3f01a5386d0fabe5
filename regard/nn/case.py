"""One call of attention, as the fast paths get it: what is compared, where it lies, and who may look at whom."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.layout import Layout
from regard.nn.positions import Position
from regard.nn.sight import Sight


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
