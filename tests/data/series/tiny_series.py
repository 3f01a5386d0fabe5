"""Tables of series, written for a test."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from regard.data.series.times import written


def write_series(
    path: Path,
    n: int = 40,
    step: str = "1h",
    first: str = "2024-03-01",
    value: Callable[[int], tuple[object, ...]] = lambda i: (i, 100 - 2 * i),
    names: str = "load,wind",
) -> Path:
    size, unit = int(step[:-1]), step[-1]
    times = written(np.datetime64(first, "us") + np.arange(n) * np.timedelta64(size, unit))
    rows = (f"{time},{','.join(map(str, value(i)))}\n" for i, time in enumerate(times))
    path.write_text(f"date,{names}\n" + "".join(rows), encoding="utf-8")
    return path
