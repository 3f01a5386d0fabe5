"""A history that a user gives: read as in training, and the forecast of what comes after it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.data.notes import Notes
from regard.data.series.form import TableForm
from regard.data.series.series import Scale, SeriesSet, features_of, filled, read_series, refuse_missing
from regard.data.series.tables import LARGEST, Frame, Given, Table, frame_table, read_table
from regard.data.series.times import calendar_features
from regard.errors import DataError, RegardError
from regard.models.forecaster import Forecaster
from regard.nn.series import SeriesForm
from regard.tasks.forecasting.verbs import Forecasted

KINDS = "the path of a table, a data frame, columns by name, or an array (steps, columns)"


def histories_of(value: object, where: str) -> Sequence[Given]:
    """One history, or those of a list."""
    if isinstance(value, str | Path | Mapping | np.ndarray | Frame):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | set | frozenset):
        raise DataError(f"{where}: expected {KINDS}, or a list of them; got {type(value).__name__}")
    histories = list(value)
    for place, history in enumerate(histories):
        if not isinstance(history, str | Path | Mapping | np.ndarray | Frame):
            raise DataError(f"{where}: expected {KINDS}; got {type(history).__name__} at place {place}")
    return histories


def name_of(given: Given) -> str:
    """What people call it."""
    return (
        str(given) if isinstance(given, str | Path) else "the array" if isinstance(given, np.ndarray) else "the frame"
    )


@dataclass(frozen=True)
class History:
    """The last window of each of S series, as a model reads it, and the times that come after."""

    ids: list[str]
    past: Tensor  # S, L, C + seen
    features: Tensor  # S, L + H, known
    recent: list[np.ndarray]  # of each series, its rows (n, C) in the units of the data
    past_times: list[list[str]]  # of each series, the L times that are read; empty: the history has no times
    times: list[list[str]]  # of each series, the H times that are forecast; likewise
    notes: list[str]
    time_name: str = "time"  # of the column of times


def read_history(given: Given, form: TableForm, scale: Scale, sizes: SeriesForm, step: str) -> History:
    """`form` names the columns that the run forecasts; `step` is that of its training."""
    if isinstance(given, np.ndarray):
        return array_history(given, form, scale, sizes)
    name = name_of(given)
    notes = Notes()
    if isinstance(given, str | Path):
        table: Table = read_table(Path(given), form.encoding, notes)
    else:
        table = frame_table(given, name)
    series = read_series(table, replace(form, rows=0), notes)
    if step and str(series.step) != step:
        raise DataError(f"{name} has steps of {series.step}, and this run was trained on steps of {step}")
    windows = [
        last_window(series, own, key, form, sizes, name) for own, key in zip(series.slices(), series.ids, strict=True)
    ]
    refuse_missing(series, form, [slice(end - sizes.look_back, end) for end in windows], notes)
    values, known = scale.apply(series)
    whole, whole_known = filled(values, series.slices(), form.missing), filled(known, series.slices(), form.missing)
    pasts, features, recent, past_times, times = [], [], [], [], []
    read = features_of(series, whole_known, form)
    for own, end in zip(series.slices(), windows, strict=True):
        ahead = series.times.take(slice(own.start, end)).ahead(series.step, sizes.horizon, form.zone)
        # Where something is known ahead, rows after the last value say what.
        future = read[end : end + sizes.horizon] if form.known else calendar_features(ahead.local, form.calendar)
        pasts.append(whole[end - sizes.look_back : end])
        features.append(np.concatenate([read[end - sizes.look_back : end], future]))
        recent.append(series.values[own.start : end, : series.n_columns])
        past_times.append(series.times.take(slice(end - sizes.look_back, end)).written())
        times.append(ahead.written())
    inputs = as_tensor(pasts), as_tensor(features)
    return History(series.ids, *inputs, recent, past_times, times, list(notes.rows()), form.time_name(table))


def last_window(series: SeriesSet, own: slice, key: str, form: TableForm, sizes: SeriesForm, name: str) -> int:
    """The row after the last value of a series; what is known ahead may go on."""
    what = f"{name}, series {key!r}," if key else name
    end = own.stop
    if form.known:
        has_value = ~np.isnan(series.values[own, : series.n_columns]).all(1)
        end = own.start + (int(np.flatnonzero(has_value)[-1]) + 1 if has_value.any() else 0)
        n_ahead = own.stop - end
        if n_ahead < sizes.horizon or np.isnan(series.known[end : end + sizes.horizon]).any():
            named = ", ".join(form.known)
            raise DataError(
                f"{what} must say {named} for {sizes.horizon} steps after the last value, in rows whose other columns "
                f"are empty; it has {n_ahead} such rows, and none of these fields may be empty"
            )
    if end - own.start < sizes.look_back:
        raise DataError(
            f"{what} has {end - own.start} rows, and this run reads {sizes.look_back}; give more of the past"
        )
    return end


def array_history(array: np.ndarray, form: TableForm, scale: Scale, sizes: SeriesForm) -> History:
    """Without times, so nothing of the calendar can be known."""
    n = sizes.n_columns + sizes.n_seen
    if form.calendar or form.known:
        raise DataError("this run reads times or what is known ahead, and an array has none: give columns by name")
    if array.ndim != 2 or array.shape[1] != n or array.dtype.kind not in "fiu":
        raise DataError(f"expected an array of numbers (steps, {n}), got {array.dtype} {array.shape}")
    if len(array) < sizes.look_back:
        raise DataError(f"the array has {len(array)} rows, and this run reads {sizes.look_back}; give more of the past")
    rows = array.astype(np.float64)
    if not (np.abs(rows[-sizes.look_back :]) <= LARGEST).all():
        raise DataError(f"the last {sizes.look_back} rows of the array must be numbers within ±{LARGEST:g}")
    past = (rows[-sizes.look_back :] - scale.means[:n]) / scale.deviations[:n]
    features = np.empty((1, sizes.n_steps, 0))
    return History([""], as_tensor([past]), as_tensor(list(features)), [rows[:, : sizes.n_columns]], [], [], [])


def as_tensor(arrays: list[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(arrays).astype(np.float32))


@torch.no_grad()
def forecast_history(
    model: Forecaster,
    history: History,
    columns: Sequence[str],
    scale: Scale,
    learned: Sequence[float],
    id_name: str,
    horizon: int | None,
    quantiles: Sequence[float] | None,
) -> Forecasted:
    n = model.form.horizon if horizon is None else horizon
    if not 1 <= n <= model.form.horizon:
        hint = f"train with model.horizon = {n}" if n > 0 else "ask for at least one"
        raise RegardError(f"this run forecasts {model.form.horizon} steps, got horizon {n}; {hint}")
    outputs = model(history.past.to(model.device), history.features.to(model.device)).float().cpu().numpy()[:, :n]
    values = scale.undo(outputs[..., 0].astype(np.float64))
    bands = np.sort(outputs[..., 1:].astype(np.float64), -1)
    levels = {
        level: scale.undo(at_level(bands, learned, level)) for level in (learned if quantiles is None else quantiles)
    }
    times = [ahead[:n] for ahead in history.times]
    names = {"time_name": history.time_name, "id_name": id_name or "id"}
    return Forecasted(history.ids, list(columns), times, values, levels, history.recent, history.notes, **names)


def at_level(bands: np.ndarray, learned: Sequence[float], level: float) -> np.ndarray:
    """Between two learned quantiles, on the line from one to the other."""
    if not learned:
        raise RegardError("this run forecasts one number a step: train it with task.quantiles to ask for quantiles")
    if not learned[0] <= level <= learned[-1]:
        raise RegardError(f"this run has learned quantiles from {learned[0]:g} to {learned[-1]:g}, got {level!r:.20}")
    above = int(np.searchsorted(learned, level))
    if learned[above] == level:
        return bands[..., above]
    share = (level - learned[above - 1]) / (learned[above] - learned[above - 1])
    return (1 - share) * bands[..., above - 1] + share * bands[..., above]
