"""Parts of series by time, and the windows in them: a look-back, and the horizon after it."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from regard.data.config import DataConfig
from regard.data.files.splits import Parts, Shares
from regard.data.notes import Notes
from regard.data.series.form import TableForm
from regard.data.series.series import Scale, SeriesSet, features_of, filled, read_series, refuse_missing
from regard.data.series.tables import read_tables
from regard.data.series.times import shown
from regard.errors import DataError
from regard.nn.series import SeriesForm


@dataclass(frozen=True)
class Stretch:
    """Of each series the rows that a part of the data forecasts; what it reads of the past may lie before them."""

    series: SeriesSet
    rows: list[slice]
    notes: Notes

    def __len__(self) -> int:
        return sum(part.stop - part.start for part in self.rows)


def read_stretch(files: tuple[str, ...], root: str, form: TableForm) -> Stretch:
    """All rows of files."""
    notes = Notes()
    series = read_series(read_tables(files, root, form.encoding, notes), form, notes)
    refuse_missing(series, form, series.slices(), notes)
    return Stretch(series, series.slices(), notes)


def series_parts(form: TableForm, data: DataConfig) -> Parts[Stretch]:
    """Shares are taken by time: validation is after training, and the test after both."""

    def divide() -> Shares[Stretch]:
        whole = read_stretch(data.train, data.root, form)
        return divided(whole, data.valid_share, data.test_share)

    whole = replace(form, rows=0)
    return Parts(data, "series", lambda files, root: read_stretch(files, root, whole), divide)


def divided(whole: Stretch, valid_share: float, test_share: float) -> Shares[Stretch]:
    """Cut at two times, the same for all series, so that no series knows another's future."""
    series = whole.series
    times = series.local if series.n_series == 1 else np.unique(series.local)
    n = len(times)
    n_train = int(n * (1 - valid_share - test_share) + 1e-6)  # whole numbers stay whole
    n_test = int(n * test_share + 1e-6)
    if not valid_share:
        n_train = n - n_test
    cuts = [0, n_train, n - n_test, n]
    parts = []
    for k, (a, b) in enumerate(pairwise(cuts)):
        rows = [
            slice(own.start + at(series, own, times, a), own.start + at(series, own, times, b))
            for own in series.slices()
        ]
        parts.append(Stretch(series, rows, whole.notes if k == 0 else Notes()))
    train, valid, test = parts
    return train, valid if valid_share else None, test if test_share else None


def at(series: SeriesSet, own: slice, times: np.ndarray, cut: int) -> int:
    """How many rows of a series are before a cut."""
    if series.n_series == 1:
        return cut
    return int(np.searchsorted(series.local[own], times[cut])) if cut < len(times) else own.stop - own.start


class WindowSet:
    """Every window of a stretch: origin t reads the rows t - look_back to t - 1 and forecasts t to t + horizon - 1."""

    def __init__(self, stretch: Stretch, scale: Scale, config: TableForm, form: SeriesForm):
        self.stretch, self.series, self.scale, self.form = stretch, stretch.series, scale, form
        values, known = scale.apply(self.series)
        n_columns = self.series.n_columns
        is_measured = ~np.isnan(values[:, :n_columns])
        slices = self.series.slices()
        self.values = torch.from_numpy(filled(values, slices, config.missing).astype(np.float32))  # N x (C + seen)
        self.is_measured = None if is_measured.all() else torch.from_numpy(is_measured)  # N x C; None: all are
        features = features_of(self.series, filled(known, slices, config.missing), config)
        self.features = torch.from_numpy(features.astype(np.float32))  # N x known
        self.notes = Notes()
        self.notes.update(stretch.notes)
        self.origins = self.find_origins()
        self.lengths = np.full(len(self.origins), form.n_steps)

    def find_origins(self) -> np.ndarray:
        origins_of = []
        for name, whole, rows in zip(self.series.ids, self.series.slices(), self.stretch.rows, strict=True):
            first = max(rows.start, whole.start + self.form.look_back)
            origins_of.append(np.arange(first, rows.stop - self.form.horizon + 1))
            if not len(origins_of[-1]) and len(self.series.ids) > 1:
                place = f"{name!r}, {rows.stop - rows.start} rows"
                self.notes.add("series too short for a window, not used", place)
        origins = np.concatenate(origins_of)
        if not len(origins):
            longest = max(rows.stop - rows.start for rows in self.stretch.rows)
            sizes = f"{self.form.look_back} steps of the past and {self.form.horizon} ahead"
            files = ", ".join(self.series.table.files)
            raise DataError(
                f"{files}: no window fits: one has {sizes}, and the longest part of a series that is forecast has "
                f"{longest:,} rows; lower model.look_back or model.horizon, or give more rows"
            )
        return origins

    def __len__(self) -> int:
        return len(self.origins)

    def describe(self) -> str:
        series, first, last = self.series, self.origins[0], self.origins[-1] + self.form.horizon - 1
        many = f"{series.n_series:,} series, " if series.n_series > 1 else ""
        span = f"from {shown(series.local[first])} to {shown(series.local[last])}" if series.n_series == 1 else ""
        return f"{len(self):,} windows of {series.n_columns:,} columns, {many}steps of {series.step} {span}".rstrip(
            " ,"
        )

    def where(self, i: int) -> str:
        return self.series.where(int(self.origins[i]))

    def read(self, chosen: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """(past, features of past and future, future, whether each of the future was measured) of these windows."""
        form, begin = self.form, torch.from_numpy(self.origins[chosen] - self.form.look_back)
        steps = begin[:, None] + torch.arange(form.n_steps)  # B, L + H
        past, ahead = steps[:, : form.look_back], steps[:, form.look_back :]
        n = self.series.n_columns
        measured = None if self.is_measured is None else self.is_measured[ahead]
        return self.values[past], self.features[steps], self.values[:, :n][ahead], measured
