"""Answers as JSON has them: dataclasses and named tuples by their fields, arrays as lists, no NaN.  No PyTorch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from regard.text.unicode import well_formed


def plain(value: Any) -> Any:
    """A number that is not finite becomes null: JSON has no word for it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if is_dataclass(value):
        return {field.name: plain(vars(value)[field.name]) for field in fields(value)}
    if isinstance(value, tuple) and type(value) is not tuple:
        return plain(value._asdict())  # type: ignore[attr-defined]  # a named tuple
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} has no form as JSON")
