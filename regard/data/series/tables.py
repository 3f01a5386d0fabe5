"""Tables whose rows have a time: CSV, TSV, JSONL and Parquet files, data frames, and columns by name."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from regard.data.files.arrow import ARROW_KINDS, arrow_table
from regard.data.files.reading import kind_of, read_lines
from regard.data.files.records import TABLES, parse_json
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

MISSING = ("", "na", "n/a", "nan", "null", "none")  # what stands for no value, in any case
LARGEST = 1e24  # of numbers: those beyond, once they are standardized, may not fit 32 bits
N_NAMED = 20  # columns named in a message


@runtime_checkable
class Frame(Protocol):
    """A data frame of pandas or polars."""

    @property
    def columns(self) -> Iterable[str]: ...

    def __getitem__(self, name: str) -> Iterable[object]: ...


Column = Sequence[object] | np.ndarray
Given = str | Path | Frame | Mapping[str, Column] | np.ndarray  # what may be given in Python


@dataclass(frozen=True)
class Table:
    """Columns of equal length by name; row i is at `where(i)`."""

    columns: dict[str, Column]
    files: list[str]
    starts: list[int]  # the first row of each file
    lines: np.ndarray  # of each row, counted from 1

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, i: int) -> str:
        file = int(np.searchsorted(self.starts, i, side="right")) - 1
        return f"{self.files[file]}:{self.lines[i]}"

    def column(self, name: str, why: str) -> Column:
        if name not in self.columns:
            names = list(self.columns)
            more = ", ..." * (len(names) > N_NAMED)
            raise DataError(
                f"{self.files[0]} has no column {name!r} ({why}); it has: {', '.join(names[:N_NAMED])}{more}"
            )
        return self.columns[name]

    def numbers(self, name: str, why: str) -> np.ndarray:
        """A column as float64, NaN where there is no value; what is neither is refused, with its row."""
        column = self.column(name, why)
        try:
            numbers = np.asarray(column).astype(np.float64)
        except (ValueError, TypeError):
            numbers = np.array([self.number(value, name, i) for i, value in enumerate(column)], np.float64)
        large = np.flatnonzero(np.abs(numbers) > LARGEST)  # no comparison holds of NaN
        if len(large):
            hint = "fix it, or leave the field empty"
            raise DataError(f"{self.where(int(large[0]))}: {name!r:.40} is infinite or above {LARGEST:g}; {hint}")
        return numbers

    def number(self, value: object, name: str, i: int) -> float:
        if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
            return float("nan")
        try:
            return float(value)  # type: ignore[arg-type]  # what it cannot take is refused here
        except (ValueError, TypeError):
            hint = "fix it, leave the field empty, or name the columns to forecast: task.columns"
            raise DataError(f"{self.where(i)}: {name!r:.40} is {value!r:.40}, which is not a number; {hint}") from None


def read_tables(files: Sequence[str], root: Path | str, encoding: str, notes: Notes) -> Table:
    """The rows of all files, one after the other; all have the columns of the first."""
    if not files:
        raise ConfigError("no files are named; set data.train")
    tables = [read_table(Path(root) / file, encoding, notes) for file in files]
    first, starts = tables[0], np.cumsum([0, *map(len, tables[:-1])]).tolist()
    for table in tables[1:]:
        if list(table.columns) != list(first.columns):
            raise DataError(f"{table.files[0]} has other columns than {first.files[0]}; all files need the same")
    if len(tables) == 1:
        return first
    columns: dict[str, Column] = {
        name: [value for table in tables for value in table.columns[name]] for name in first.columns
    }
    return Table(columns, [table.files[0] for table in tables], starts, np.concatenate([t.lines for t in tables]))


def read_table(path: Path, encoding: str = "utf-8", notes: Notes | None = None) -> Table:
    kind, notes = kind_of(path), Notes() if notes is None else notes
    if kind in ARROW_KINDS:
        return read_arrow(path)
    if kind not in TABLES:
        kinds = ", ".join(TABLES)
        raise DataError(f"{path} is not a table with a time in each row; its name must end in one of {kinds}")
    lines = read_lines(path, notes, encoding)
    if not lines:
        raise DataError(f"{path} is empty; its first line must name its columns")
    header = read_header(lines, kind, path)
    records = list(TABLES[kind](lines, header, path, notes))
    if not records:
        raise DataError(f"{path} has no rows, only the names of its columns")
    columns: dict[str, Column] = {name: [fields[c] for fields, _ in records] for c, name in enumerate(header)}
    return Table(columns, [path.name], [0], np.array([line for _, line in records]))


def read_header(lines: Sequence[str], kind: str, path: Path) -> tuple[str, ...]:
    """The names of the columns, which in CSV may be quoted and have line ends."""
    if kind == ".jsonl":
        record = parse_json(lines[0], f"{path}:1")
        names = list(record) if isinstance(record, dict) else []
    elif kind == ".csv":
        try:
            names = next(csv.reader((f"{line}\n" for line in lines), strict=True), [])
        except csv.Error as error:
            raise DataError(f"{path}:1 is not valid CSV ({error}); fix the names of the columns") from None
    else:
        names = lines[0].split("\t")
    if not names:
        raise DataError(f"{path}:1 names no columns")
    return tuple(names)


def read_arrow(path: Path) -> Table:
    """Rows are counted from 1, as such files have no lines."""
    table = arrow_table(path)
    columns: dict[str, Column] = {name: table[name].to_pylist() for name in table.column_names}
    return Table(columns, [path.name], [0], np.arange(1, table.num_rows + 1))


def frame_table(frame: Frame | Mapping[str, Column], name: str) -> Table:
    """A data frame, or columns by name; rows are counted from 0, as Python counts them."""
    names = list(frame) if isinstance(frame, Mapping) else list(frame.columns)
    for column in names:
        if not isinstance(column, str):
            raise DataError(f"{name}: the names of columns must be texts, got {column!r}")
    arrays = {column: np.asarray(frame[column]) for column in names}
    shapes = {column: values.shape for column, values in arrays.items()}
    if len(set(shapes.values())) != 1 or any(len(shape) != 1 or not shape[0] for shape in shapes.values()):
        raise DataError(f"{name}: expected columns of one length, got the shapes {str(shapes)[:200]}")
    return Table(dict(arrays), [name], [0], np.arange(len(arrays[names[0]])))
