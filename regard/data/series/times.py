"""Times: how they are written, the step between them, and what the calendar says of each."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from regard.data.series.tables import Column
from regard.errors import ConfigError, DataError

SECOND = 1_000_000  # microseconds
MONTH, YEAR = np.timedelta64(1, "M"), np.timedelta64(1, "Y")
UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
EXAMPLE = "2024-01-31 13:00"
Where = Callable[[int], str]


@dataclass(frozen=True)
class Step:
    """From one time to the next: so many microseconds, or so many months of the calendar."""

    microseconds: int = 0
    months: int = 0
    from_end: bool = False  # months are counted from the last day of one to the last day of another

    def __str__(self) -> str:
        if self.months:
            return f"{self.months} month" + "s" * (self.months > 1)
        for unit, seconds in UNITS.items():
            n, rest = divmod(self.microseconds, seconds * SECOND)
            if n and not rest:
                return f"{n} {unit}" + "s" * (n > 1)
        return f"{self.microseconds / SECOND:g} seconds"

    def after(self, last: np.datetime64, n: int) -> np.ndarray:
        """The n times after the last one."""
        steps = np.arange(1, n + 1)
        if not self.months:
            return last + steps * np.timedelta64(self.microseconds, "us")
        month = last.astype("datetime64[M]")
        within = last - month.astype("datetime64[us]")
        months = month + steps * self.months * MONTH
        if not self.from_end:
            return months.astype("datetime64[us]") + within
        ends = (months + MONTH).astype("datetime64[us]")
        return ends - ((month + MONTH).astype("datetime64[us]") - last)

    @property
    def season(self) -> int:
        """Steps after which values are usually alike: a day, of days a week, of weeks or months a year; 1: unknown."""
        if self.months:
            return max(1, 12 // self.months)
        seconds = self.microseconds / SECOND
        for shortest, period in ((UNITS["week"], 365.25 * 86_400), (UNITS["day"], 604_800), (0, 86_400)):
            if seconds >= shortest and seconds < period / 1.5:
                return max(1, int(period // seconds))
        return 1


class Times(NamedTuple):
    """Both datetime64[us]: as the calendar of their place has them, and in UTC."""

    local: np.ndarray
    moments: np.ndarray
    has_offset: bool  # they were written with their offset from UTC

    def take(self, rows: np.ndarray | slice) -> "Times":
        return Times(self.local[rows], self.moments[rows], self.has_offset)

    def ahead(self, step: Step, n: int, zone: str) -> "Times":
        """The n times after the last; hours go on through the change to summer time, days stay at their hour."""
        if not zone:
            local = step.after(self.local[-1], n)
            return Times(local, local, self.has_offset)
        info = find_zone(zone)
        if step.months or step.microseconds >= UNITS["day"] * SECOND:
            local = step.after(self.local[-1], n)
            return Times(
                local, plain([time.replace(tzinfo=info).astimezone(UTC) for time in local.tolist()]), self.has_offset
            )
        moments = step.after(self.moments[-1], n)
        local = plain([time.replace(tzinfo=UTC).astimezone(info) for time in moments.tolist()])
        return Times(local, moments, self.has_offset)

    def written(self) -> list[str]:
        """As ISO 8601 has them, with their offset where those that were read had one."""
        if not self.has_offset:
            return written(self.local)
        minutes = ((self.local - self.moments).astype(np.int64) // (60 * SECOND)).tolist()
        offsets = (f"{'-' if m < 0 else '+'}{abs(m) // 60:02}:{abs(m) % 60:02}" for m in minutes)
        return [time + offset for time, offset in zip(written(self.local, days=False), offsets, strict=True)]


def check_zone(zone: str) -> None:
    if zone:
        find_zone(zone)


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"there is no time zone {name!r}; its name looks like Europe/Berlin or UTC") from None


def read_times(column: Column, form: str, zone: str, where: Where) -> Times:
    """Times with an offset are moments; without one they are local in the zone or, if none is named, as they are."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        times = [None if np.isnat(value) else value.astype("datetime64[us]").item() for value in column]
    else:
        times = [read_time(value, form, where, i) for i, value in enumerate(column)]
    missing = [i for i, time in enumerate(times) if time is None]
    if missing:
        raise DataError(f"{where(missing[0])} has no time; fix or remove the row")
    aware = [time.tzinfo is not None for time in times if time is not None]
    if any(aware) and not all(aware):
        i = aware.index(not aware[0])
        raise DataError(f"{where(i)}: some times have an offset from UTC and some have none; write all in one way")
    info = find_zone(zone) if zone else None
    if aware and aware[0]:
        in_utc = [time.astimezone(UTC) for time in times if time is not None]
        local = in_utc if info is None else [time.astimezone(info) for time in in_utc]
        return Times(plain(local), plain(in_utc), True)
    local = [time for time in times if time is not None]
    if info is None:
        return Times(plain(local), plain(local), False)
    moments, before = [], None
    for time in local:
        # An hour that the end of summer time repeats: written for the second time it is the later one.
        moment = time.replace(tzinfo=info).astimezone(UTC)
        if before is not None and moment <= before:
            moment = time.replace(tzinfo=info, fold=1).astimezone(UTC)
        moments.append(moment)
        before = moment
    return Times(plain(local), plain(moments), False)


def read_time(value: object, form: str, where: Where, i: int) -> datetime | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    try:
        if isinstance(value, str):
            return datetime.strptime(value, form) if form else datetime.fromisoformat(value.strip())
    except ValueError:
        pass
    wanted = (
        f"as task.time_format = {form!r} says" if form else f"such as {EXAMPLE}; task.time_format says another form"
    )
    raise DataError(f"{where(i)}: {value!r:.40} is not a time {wanted}")


def plain(times: list[datetime]) -> np.ndarray:
    return np.array([time.replace(tzinfo=None) for time in times], dtype="datetime64[us]")


def find_step(times: Times, where: Where, rows_are_steps: bool) -> Step:
    """The step between all times of one series.  Raises where one is repeated, missing or out of step.

    Where rows are steps, whatever their times, these must only not go back.
    """
    local, moments = times.local, times.moments
    if len(moments) < 2:
        raise DataError(f"{where(0)}: a series of one row has no step; give more of its past")
    differences = np.diff(moments).astype(np.int64)
    is_wrong = differences < 0 if rows_are_steps else differences <= 0
    for i in np.flatnonzero(is_wrong)[:1].tolist():
        what = "repeats the time of" if differences[i] == 0 else "is earlier than"
        hint = "each series needs one row for each time, in order; with several series name their column: task.id"
        raise DataError(f"{where(i + 1)}: {shown(local[i + 1])} {what} {where(i)}, {shown(local[i])}; {hint}")
    values, counts = np.unique(differences, return_counts=True)
    usual = int(values[counts.argmax()])
    if rows_are_steps or len(values) == 1:
        return Step(usual)
    days = np.diff(local).astype(np.int64)  # a local day has 23 or 25 hours when summer time begins or ends
    if usual >= UNITS["day"] * SECOND and len(np.unique(days)) == 1:
        return Step(int(days[0]))
    by_month = find_months(local)
    if by_month is not None:
        return by_month
    i = int(np.flatnonzero(differences != usual)[0])
    n, rest = divmod(int(differences[i]), usual)
    between = f"between {where(i)}, {shown(local[i])}, and {where(i + 1)}, {shown(local[i + 1])}"
    hint = 'fill them in, or let every row be a step: task.times = "rows"'
    if n > 1 and not rest:
        how_many = f"{n - 1:,} times are" if n > 2 else "a time is"
        raise DataError(f"{how_many} missing {between}; the step is {Step(usual)}: {hint}")
    raise DataError(f"the times are not regular {between}; most are {Step(usual)} apart: {hint}")


def find_months(local: np.ndarray) -> Step | None:
    """Steps of equally many months, on one day of the month or always on its last."""
    months = local.astype("datetime64[M]")
    apart = np.diff(months.astype(np.int64))
    if len(np.unique(apart)) != 1 or apart[0] < 1:
        return None
    if len(np.unique(local - months.astype("datetime64[us]"))) == 1:
        return Step(months=int(apart[0]))
    if len(np.unique((months + MONTH).astype("datetime64[us]") - local)) == 1:
        return Step(months=int(apart[0]), from_end=True)
    return None


def share_of_year(local: np.ndarray) -> np.ndarray:
    years = local.astype("datetime64[Y]")
    begin, end = years.astype("datetime64[us]"), (years + YEAR).astype("datetime64[us]")
    return (local - begin) / (end - begin)


def share_of_month(local: np.ndarray) -> np.ndarray:
    months = local.astype("datetime64[M]")
    begin, end = months.astype("datetime64[us]"), (months + MONTH).astype("datetime64[us]")
    return (local - begin) / (end - begin)


def share_of(seconds: int, offset: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    return lambda local: (local.astype(np.int64) / SECOND - offset) % seconds / seconds


# What the calendar says: how much of a period has passed, from 0 to 1.
CALENDAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hour": share_of(3_600),
    "day": share_of(86_400),
    "week": share_of(604_800, offset=4 * 86_400),  # 1970 began on a Thursday
    "month": share_of_month,
    "year": share_of_year,
}


def calendar_features(local: np.ndarray, periods: tuple[str, ...]) -> np.ndarray:
    """(N, 2 periods): the sine and the cosine of where in each period a time lies, so that its end meets its start."""
    angles = [2 * np.pi * CALENDAR[period](local) for period in periods]
    waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    return np.stack(waves, 1) if waves else np.empty((len(local), 0))


def written(times: np.ndarray, days: bool = True) -> list[str]:
    """As ISO 8601 has them: days alone where all are midnights, else to the minute, or finer where they are."""
    units = ("D", "m", "s", "us") if days else ("m", "s", "us")
    unit = next(unit for unit in units if (times == times.astype(f"datetime64[{unit}]")).all())
    return [str(text).replace("T", " ") for text in times.astype(f"datetime64[{unit}]").astype(str).tolist()]


def shown(time: np.datetime64) -> str:
    return written(np.array([time]))[0]
