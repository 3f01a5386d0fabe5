"""What series look like before anything is learned from them: rows for `regard doctor`."""

import numpy as np

from regard.data.report import Row, note_rows
from regard.data.series.windows import WindowSet

EXTREME = 20.0  # a value so many deviations of training away deserves a look: it may stand for a missing one


def series_rows(part: str, windows: WindowSet, season: int) -> list[Row]:
    """Frequency, gaps, missing values, constants, extremes and seasonality."""
    series = windows.series
    stretch = windows.stretch
    measured = [series.values[rows, : series.n_columns] for rows in stretch.rows]
    values = np.concatenate(measured)
    irregular = out_of_step(windows)
    rows = [
        Row(part, "rows, windows", f"{len(values):,}, {len(windows):,}", windows.where(0)),
        Row(part, "step, season", f"{series.step}, {season} steps"),
        Row(part, "rows out of step", f"{len(irregular):,}", series.where(irregular[0]) if irregular else ""),
        Row(part, "missing values", f"{int(np.isnan(values).sum()):,}"),
    ]
    if series.n_series > 1:
        rows.insert(0, Row(part, "series", f"{series.n_series:,}"))
    constant = [
        name for name, column in zip(series.names, values.T, strict=True) if np.nanmin(column) == np.nanmax(column)
    ]
    rows.append(Row(part, "constant columns", ", ".join(constant) or "none"))
    rows += extreme_rows(part, windows)
    for name, column in zip(series.names, values.T, strict=True):
        same = alike(measured, series.names.index(name), season)
        last = alike(measured, series.names.index(name), 1)
        text = f"{np.nanmin(column):.4g} to {np.nanmax(column):.4g}; correlation {last} at 1 step, {same} at {season}"
        rows.append(Row(part, name, text))
    return rows + note_rows(part, windows.notes)


def out_of_step(windows: WindowSet) -> list[int]:
    """Rows whose time is not one step after the row before, neither by the clock nor by the calendar of their place;
    there are some only with task.times = "rows"."""
    series = windows.series
    if series.step.months:
        return []
    wrong_rows = []
    for rows in windows.stretch.rows:
        times = series.times.take(rows)
        differences = np.diff(np.stack([times.local, times.moments])).astype(np.int64)
        is_wrong = (differences != series.step.microseconds).all(0)
        wrong_rows += (rows.start + 1 + np.flatnonzero(is_wrong)).tolist()
    return wrong_rows


def extreme_rows(part: str, windows: WindowSet) -> list[Row]:
    rows = []
    for c, name in enumerate(windows.series.names):
        for stretch in windows.stretch.rows:
            sizes = np.abs(windows.series.values[stretch, c] - windows.scale.means[c]) / windows.scale.deviations[c]
            if len(sizes) and np.nanmax(sizes, initial=0.0) > EXTREME:
                i = int(np.nanargmax(sizes))
                value = windows.series.values[stretch.start + i, c]
                what = f"{value:g}, {sizes[i]:.0f} deviations away: is it a code for a missing value?"
                rows.append(Row(part, f"{name}: extreme value", what, windows.series.where(stretch.start + i)))
                break
    return rows


def alike(measured: list[np.ndarray], c: int, lag: int) -> str:
    """The correlation of a column with itself, `lag` steps before."""
    pairs = [(values[lag:, c], values[:-lag, c]) for values in measured if len(values) > lag]
    if not pairs:
        return "unknown"
    now, before = (np.concatenate(side) for side in zip(*pairs, strict=True))
    is_whole = ~(np.isnan(now) | np.isnan(before))
    now, before = now[is_whole], before[is_whole]
    if len(now) < 2 or now.std() == 0 or before.std() == 0:
        return "unknown"
    return f"{np.corrcoef(now, before)[0, 1]:.2f}"
