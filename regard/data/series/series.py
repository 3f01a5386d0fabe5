"""Series: rows of numbers at regular times, one series after the other; and the numbers by which they are scaled."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from regard.data.notes import Notes
from regard.data.series.form import TableForm
from regard.data.series.tables import Table
from regard.data.series.times import Step, Times, calendar_features, find_step, read_times
from regard.errors import DataError

FILLED = "missing values filled by the rule of task.missing, never measured"


@dataclass(frozen=True)
class SeriesSet:
    """N rows; those of a series follow each other.  NaN is a missing value."""

    names: tuple[str, ...]  # of the columns that are forecast
    read: tuple[str, ...]  # of all columns: those that are forecast, seen and known
    values: np.ndarray  # N x (C + seen): those that are forecast, then those that are only seen
    known: np.ndarray  # N x known: what is known ahead
    times: Times  # N
    starts: np.ndarray  # of each series, and the end of all
    ids: list[str]
    step: Step
    table: Table
    rows: np.ndarray  # of the table, one for each row here
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_series(self) -> int:
        return len(self.ids)

    @property
    def local(self) -> np.ndarray:
        return self.times.local

    @property
    def n_columns(self) -> int:
        return len(self.names)

    def where(self, i: int) -> str:
        return self.table.where(int(self.rows[i]))

    def slices(self) -> list[slice]:
        return [slice(int(a), int(b)) for a, b in pairwise(self.starts)]


def read_series(table: Table, form: TableForm, notes: Notes) -> SeriesSet:
    """All series of a table.  Raises, with the row, where times or numbers are not as the form says."""
    times = read_times(form.time_column(table), form.time_format, form.zone, table.where)
    names = form.value_columns(table)
    values = np.stack(
        [table.numbers(name, why) for why, part in (("to forecast", names), ("task.seen", form.seen)) for name in part],
        1,
    )
    known = [table.numbers(name, "task.known") for name in form.known]
    keys = [str(key) for key in table.column(form.id, "task.id")] if form.id else [""] * len(table)
    ids = list(dict.fromkeys(keys))
    number = {key: i for i, key in enumerate(ids)}
    of_series = np.array([number[key] for key in keys])
    order = np.argsort(of_series, kind="stable")
    order, starts = cut_rows(order, of_series, form.rows, notes, table)
    steps = []
    for a, b in pairwise(starts):
        rows = order[a:b]
        steps.append(find_step(times.take(rows), partial(where_of, table, rows), form.times == "rows"))
    other = next((i for i, step in enumerate(steps) if step != steps[0]), None)
    if other is not None:
        what = f"{ids[0]!r} has a step of {steps[0]}, {ids[other]!r} of {steps[other]}"
        raise DataError(f"{table.files[0]}: all series need one step: {what}; split the table")
    of_known = np.stack(known, 1) if known else np.empty((len(table), 0))
    numbers = values[order], of_known[order]
    read = (*names, *form.seen, *form.known)
    return SeriesSet(names, read, *numbers, times.take(order), starts, ids, steps[0], table, order, notes)


def where_of(table: Table, rows: np.ndarray, i: int) -> str:
    return table.where(int(rows[i]))


def cut_rows(
    order: np.ndarray, of_series: np.ndarray, most: int, notes: Notes, table: Table
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all series, one series after the other, at most so many of each, and where each begins."""
    parts = np.split(order, np.flatnonzero(np.diff(of_series[order])) + 1)
    if most:
        for part in parts:
            if len(part) > most:
                notes.add(
                    f"rows after the first {most:,} not used (task.rows)", table.where(part[most]), len(part) - most
                )
        parts = [part[:most] for part in parts]
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def refuse_missing(series: SeriesSet, form: TableForm, rows: Sequence[slice], notes: Notes) -> None:
    """Missing values of these rows are refused or counted, as the form says."""
    for part in rows:
        missing = np.isnan(np.concatenate([series.values[part], series.known[part]], 1))
        if not missing.any():
            continue
        i, column = (int(place[0]) for place in np.nonzero(missing))
        where = series.where(part.start + i)
        if form.missing == "refuse":
            rules = 'set task.missing = "last" or "mean", or remove it from what is read'
            raise DataError(f"{where}: {series.read[column]!r} has no value, one of {missing.sum():,} missing; {rules}")
        notes.add(FILLED, where, int(missing.sum()))


@dataclass(frozen=True)
class Scale:
    """z = (x - mean) / deviation, of every column: those that are forecast, seen and known."""

    means: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(cls, series: SeriesSet, rows: Sequence[slice]) -> "Scale":
        """Of the values in these rows, which are those of training; a constant column is only shifted."""
        numbers = np.concatenate([np.concatenate([series.values[part], series.known[part]], 1) for part in rows])
        n_known = (~np.isnan(numbers)).sum(0)
        if not n_known.all():
            empty = series.read[int(np.flatnonzero(n_known == 0)[0])]
            hint = "leave it out of task.columns, task.seen and task.known, or train on more rows"
            raise DataError(f"{series.table.files[0]}: {empty!r} has no value in the training part; {hint}")
        means, deviations = np.nanmean(numbers, 0), np.nanstd(numbers, 0)
        return cls(means, np.where(deviations > 1e-12 * np.maximum(1, np.abs(means)), deviations, 1.0))

    def apply(self, series: SeriesSet) -> tuple[np.ndarray, np.ndarray]:
        n = series.values.shape[1]
        values = (series.values - self.means[:n]) / self.deviations[:n]
        return values, (series.known - self.means[n:]) / self.deviations[n:]

    def undo(self, standardized: np.ndarray) -> np.ndarray:
        """Of the columns that are forecast, the last axis."""
        n = standardized.shape[-1]
        return standardized * self.deviations[:n] + self.means[:n]


def filled(values: np.ndarray, slices: Sequence[slice], rule: str) -> np.ndarray:
    """Standardized values without NaN; what comes after a missing value plays no part in what it becomes."""
    if not np.isnan(values).any():
        return values
    whole = values.copy()
    for part in slices if rule == "last" else ():
        own = whole[part]
        last = np.where(np.isnan(own), 0, np.arange(len(own))[:, None])
        np.maximum.accumulate(last, axis=0, out=last)
        whole[part] = np.take_along_axis(own, last, 0)
    return np.nan_to_num(whole, nan=0.0)  # the mean of training: by its rule, or where nothing came before


def features_of(series: SeriesSet, known: np.ndarray, form: TableForm) -> np.ndarray:
    """N x features: what is known ahead, standardized, and what the calendar says."""
    return np.concatenate([known, calendar_features(series.local, form.calendar)], 1)
