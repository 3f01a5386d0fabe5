"""How a table is read as series: which column is what, how times are written, and what stands for a missing value."""

import codecs
from dataclasses import dataclass

from regard.checks import distinct, not_negative, one_of
from regard.data.series.tables import Column, Table
from regard.data.series.times import CALENDAR, check_zone
from regard.errors import ConfigError, DataError

TIME_NAMES = ("date", "time", "datetime", "timestamp", "ds")  # of the column with the times, in any case


@dataclass(frozen=True, kw_only=True)
class TableForm:
    time: str = ""  # the column with the times; empty: the first that is called date, time, datetime, timestamp or ds
    time_format: str = ""  # such as `%d.%m.%Y %H:%M`; empty: ISO 8601, such as 2024-01-31 13:00
    # such as `Europe/Berlin`: where times without an offset are local, and whose calendar is read; empty: no zone
    zone: str = ""
    times: str = "regular"  # gaps and repeated times are refused (`regular`), or every row is a step (`rows`)
    id: str = ""  # of a table with many series: the column that says which a row belongs to
    columns: tuple[str, ...] = ()  # what is forecast; empty: all columns that are named nowhere else
    seen: tuple[str, ...] = ()  # columns that are read but not forecast, and not known ahead, such as a measured wind
    known: tuple[str, ...] = ()  # columns that are known ahead, such as a price plan or a holiday (0 or 1)
    # what is read of the calendar, as sine and cosine: `hour`, `day` (the time of day), `week`, `month`, `year`
    calendar: tuple[str, ...] = ()
    # a missing value is an error (`refuse`), repeats the last value (`last`), or is the mean of training (`mean`);
    # a filled value is read, but never learned from or measured
    missing: str = "refuse"
    rows: int = 0  # of each series in data.train so many rows are used, the first; 0: all
    encoding: str = "utf-8"  # of the files, such as `latin-1`

    def __post_init__(self) -> None:
        one_of(self, ("regular", "rows"), "times")
        one_of(self, ("refuse", "last", "mean"), "missing")
        not_negative(self, "rows")
        check_zone(self.zone)
        distinct(self, "columns", "seen", "known", "calendar")
        unknown = [period for period in self.calendar if period not in CALENDAR]
        if unknown:
            raise ConfigError(f"the calendar has no {unknown[0]!r}; it has: {', '.join(CALENDAR)}")
        named = [name for name in (self.time, self.id, *self.columns, *self.seen, *self.known) if name]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ConfigError(f"the column {twice[0]!r} is named twice, as two of time, id, columns, seen and known")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(f"there is no encoding {self.encoding!r}; utf-8 and latin-1 are usual") from None

    def time_name(self, table: Table) -> str:
        name = self.time or next((name for name in table.columns if name.lower() in TIME_NAMES), "")
        if not name:
            some = ", ".join(list(table.columns)[:20])
            raise DataError(f"{table.files[0]}: which column has the times? Set task.time to one of: {some}")
        return name

    def time_column(self, table: Table) -> Column:
        return table.column(self.time_name(table), "task.time")

    def value_columns(self, table: Table) -> tuple[str, ...]:
        """Those that are forecast."""
        if self.columns:
            return self.columns
        taken = (self.time_name(table), self.id, *self.seen, *self.known)
        names = tuple(name for name in table.columns if name not in taken)
        if not names:
            raise DataError(f"{table.files[0]} has no column to forecast: only {', '.join(table.columns)}")
        return names
