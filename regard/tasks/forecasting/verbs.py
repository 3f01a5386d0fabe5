"""What can be asked of a run that forecasts: the steps after a history."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.errors import RegardError
from regard.tasks.request import Request, Texts


@dataclass(frozen=True)
class Forecasted:
    """The forecast of every series of one history: S series, H steps, C columns."""

    ids: list[str]  # "" where there is one series without a name
    columns: list[str]
    times: list[list[str]]  # S x H; empty where the history has no times
    values: np.ndarray  # S H C, the mean
    quantiles: dict[float, np.ndarray]  # S H C each, by level
    history: list[np.ndarray]  # of each series what came before, (n, C)
    notes: list[str] = field(default_factory=list)
    time_name: str = "time"  # of the column of times in the history
    id_name: str = "id"  # of the column that says which series

    def table(self) -> dict[str, list[str] | np.ndarray]:
        """Columns by name, one row for each series and step: `pandas.DataFrame(forecast.table())`.

        Columns have the names of the history, a quantile that of its column and its level.
        """
        n_series, horizon = self.values.shape[:2]
        table: dict[str, list[str] | np.ndarray] = {}
        if self.ids != [""]:
            table[self.id_name] = [name for name in self.ids for _ in range(horizon)]
        if self.times:
            table[self.time_name] = [time for times in self.times for time in times]
        else:
            table["step"] = np.tile(np.arange(1, horizon + 1), n_series)
        for c, column in enumerate(self.columns):
            own = {column: self.values[..., c].reshape(-1)}
            own |= {f"{column} {level:g}": band[..., c].reshape(-1) for level, band in self.quantiles.items()}
            twice = next((name for name in own if name in table), None)
            if twice is not None:
                raise RegardError(f"two columns of the forecast would be called {twice!r}: rename one of the history's")
            table |= own
        return table

    def csv(self) -> str:
        """The same as a CSV file; numbers with six digits."""
        table, out = self.table(), io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])
        return out.getvalue()


@dataclass(frozen=True)
class Forecast(Request[Forecasted]):
    """Forecast what comes after each history: a file, a data frame, columns by name or an array (steps, columns)."""

    name = "forecast"

    history: Texts  # in Python also data frames, columns by name, or arrays
    horizon: int | None = None  # steps; None: all that the model forecasts
    quantiles: Sequence[float] | None = None  # levels within those that were learned; None: these
