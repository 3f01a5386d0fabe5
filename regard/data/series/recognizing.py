"""Whether files are tables of series: a time in each row, and numbers beside it.

As in `files/recognizing.py`, the function gives the settings that read the files, or None, and never raises."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from regard.data.files.clues import Beginning, begin_parts, data_settings
from regard.data.files.recognizing import Recognized
from regard.data.files.records import TABLES
from regard.data.notes import Notes
from regard.data.series.tables import MISSING, read_header
from regard.errors import DataError

LEAST_ROWS = 3


def series_tables(paths: Sequence[Path]) -> Recognized | None:
    """All with the same columns: one of times and, as far as they were read, numbers in all others but one at most,
    which says which series a row belongs to."""
    parts, beginnings = begin_parts(paths)
    tables = [columns_of(beginning) for beginning in beginnings]
    if not tables or any(list(table) != list(tables[0]) for table in tables):
        return None
    times = [name for name in tables[0] if all(all(map(is_time, table[name])) for table in tables)]
    numbers = [name for name in tables[0] if all(all(map(is_number, table[name])) for table in tables)]
    others = [name for name in tables[0] if name not in (*times, *numbers)]
    if len(times) != 1 or not numbers or len(others) > 1 or len(tables[0][times[0]]) < LEAST_ROWS:
        return None
    if (
        not others and len(set(tables[0][times[0]])) < len(tables[0][times[0]]) / 2
    ):  # of one series a time is there once
        return None
    named: dict[str, object] = {"time": times[0], **({"id": others[0]} if others else {})}
    many = f", and {others[0]} says of which series" if others else ""
    first = parts["train"][0].name
    why = f"{first} is a table: its column {times[0]} has times, and {len(numbers)} have numbers{many}"
    return Recognized(data_settings(parts), named, why, 0.7 if others else 0.95)


def columns_of(beginning: Beginning) -> dict[str, list[str]]:
    """By name; {} if it is no table."""
    if beginning.kind not in TABLES or not beginning.lines:
        return {}
    try:
        header = read_header(beginning.lines, beginning.kind, beginning.path)
        rows = [row for row, _ in TABLES[beginning.kind](beginning.lines, header, beginning.path, Notes())]
    except DataError:
        return {}
    return {name: [row[i] for row in rows] for i, name in enumerate(header)} if rows else {}


def is_time(text: str) -> bool:
    """A day at least; a number alone is none."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return not text.strip().isdecimal()


def is_number(text: str) -> bool:
    if text.strip().lower() in MISSING:
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
