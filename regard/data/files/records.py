"""Tables with named columns: TSV, CSV, JSONL.  A reader takes lines and gives records.

The first line of a TSV or CSV file names its columns, unless the columns asked for are numbers ("1", "2").
"""

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from regard.data.files.arrow import ARROW_KINDS
from regard.data.notes import Notes
from regard.errors import DataError

FieldRecords = Iterator[tuple[list[str], int]]  # the wanted fields, and their line
EMPTY_LINE, EMPTY_ROW = "empty line skipped", "empty line of a table skipped"
LONGEST_FIELD = 2**24  # characters of a CSV field, of which Python's csv would take 131,072


def from_tsv(lines: Iterable[str], columns: tuple[str, ...], path: Path, notes: Notes) -> FieldRecords:
    """Fields between tabs; there is no quoting, so a quotation mark is text."""
    rows = ((line.split("\t") if line else [], i) for i, line in enumerate(lines, 1))
    return select(rows, columns, path, notes)


def from_csv(lines: Iterable[str], columns: tuple[str, ...], path: Path, notes: Notes) -> FieldRecords:
    """RFC 4180: a quoted field may hold commas, quotation marks (doubled) and line ends."""
    reader = csv.reader((line + "\n" for line in lines), strict=True)

    def rows() -> FieldRecords:
        line = 1
        try:
            for row in reader:
                yield row, line
                line = reader.line_num + 1
        except csv.Error as error:
            is_long = "field larger" in str(error)
            hint = "shorten it, or close a quotation mark" if is_long else "fix the quotation marks"
            kind = "has a field that is too long" if is_long else "is not valid CSV"
            raise DataError(f"{path}:{line} {kind} ({error}); {hint}") from None

    usual = csv.field_size_limit(LONGEST_FIELD)  # of the whole process
    try:
        yield from select(rows(), columns, path, notes)
    finally:
        csv.field_size_limit(usual)


def select(rows: FieldRecords, columns: tuple[str, ...], path: Path, notes: Notes) -> FieldRecords:
    """The wanted fields of every row; all rows must be as long as the first."""
    header: list[str] = []
    places: list[int] = []
    for row, line in rows:
        if not row:
            notes.add(EMPTY_ROW, f"{path.name}:{line}")
            continue
        if not header:
            numbered = all(column.isdecimal() for column in columns)
            header = [str(i + 1) for i in range(len(row))] if numbered else row
            missing = [column for column in columns if column not in header]
            if missing:
                raise DataError(f"{path} has no column {missing[0]!r}; it has: {', '.join(header)[:200]}")
            twice = [column for column in columns if header.count(column) > 1]
            if twice:
                raise DataError(f"{path}:{line} names the column {twice[0]!r} twice; rename one of them")
            places = [header.index(column) for column in columns]
            if not numbered:
                continue
        if len(row) != len(header):
            raise DataError(f"{path}:{line} has {len(row)} fields, the first line has {len(header)}; fix the line")
        yield [row[place] for place in places], line


def from_jsonl(lines: Iterable[str], columns: tuple[str, ...], path: Path, notes: Notes) -> FieldRecords:
    """One JSON object a line; numbers and true/false become the text that JSON writes for them."""
    for i, record in json_objects(lines, path, f"{{{columns[0]!r}: ...}}", notes, EMPTY_ROW):
        missing = [column for column in columns if column not in record]
        if missing:
            raise DataError(f"{path}:{i} has no {missing[0]!r}; it has: {', '.join(record)[:200]}")
        yield [as_text(record[column], f"{path}:{i}", column) for column in columns], i


def json_objects(
    lines: Iterable[str], file: Path | str, example: str, notes: Notes, empty: str = EMPTY_LINE
) -> Iterator[tuple[int, dict[str, object]]]:
    """Of every line that is not empty; `example` shows what such an object looks like."""
    for i, line in enumerate(lines, 1):
        for _, record in json_lines([line], file, notes, empty, first=i):
            if not isinstance(record, dict):
                raise DataError(f"{file}:{i} must be a JSON object such as {example}, got {line[:40]!r}")
            yield i, record


def json_lines(
    lines: Iterable[str], file: Path | str, notes: Notes, empty: str = EMPTY_LINE, first: int = 1
) -> Iterator[tuple[int, object]]:
    """The number and the value of every line that is not empty."""
    for i, line in enumerate(lines, first):
        if line.strip():
            yield i, parse_json(line, f"{file}:{i}")
        else:
            notes.add(empty, f"{Path(file).name}:{i}")


def parse_json(text: str, where: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=each_once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON ({error}); fix it") from None
    except ValueError as error:  # a key twice, or a number of thousands of digits
        raise DataError(f"{where} cannot be read: {error}; fix it") from None


def each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; where a key occurs twice, it is not clear which value is meant."""
    record: dict[str, object] = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"an object has {key!r} twice")
        record[key] = value
    return record


def as_text(value: object, where: str, column: str) -> str:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"{where}: {column!r} contains half of a surrogate pair (\\ud800-\\udfff), which is not a character"
            ) from None
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}: {column!r} is {json.dumps(value)}, not a finite number; fix it")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise DataError(f"{where}: {column!r} must be text, got {json.dumps(value, default=repr)[:40]}")


TABLES: dict[str, Callable[[Iterable[str], tuple[str, ...], Path, Notes], FieldRecords]] = {
    ".tsv": from_tsv,
    ".csv": from_csv,
    ".jsonl": from_jsonl,
    **{kind: from_jsonl for kind in ARROW_KINDS},  # their rows are read as such lines
}
OBJECTS = (".jsonl", *ARROW_KINDS)  # kinds of files that have an object in each line or row
