"""Tables with named columns: TSV, CSV, JSONL.  A reader takes lines and gives records and their line numbers.

The first line of a TSV or CSV file names its columns, unless the columns asked for are numbers ("1", "2").
"""

import csv
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.data.notes import Notes
from regard.errors import DataError

Records = tuple[list[list[str]], list[int]]
LONGEST_FIELD = 2**24  # characters of a CSV field, of which Python's csv would take 131,072


def from_tsv(lines: list[str], columns: tuple[str, ...], path: Path, notes: Notes) -> Records:
    """Fields between tabs; there is no quoting, so a quotation mark is text."""
    return select((([] if not line else line.split("\t"), i) for i, line in enumerate(lines, 1)), columns, path, notes)


def from_csv(lines: list[str], columns: tuple[str, ...], path: Path, notes: Notes) -> Records:
    """RFC 4180: a quoted field may hold commas, quotation marks (doubled) and line ends."""
    reader = csv.reader((line + "\n" for line in lines), strict=True)

    def rows() -> Iterable[tuple[list[str], int]]:
        while True:
            line = reader.line_num + 1
            try:
                yield next(reader), line
            except StopIteration:
                return
            except csv.Error as error:
                is_long = "field larger" in str(error)
                hint = "shorten it, or close a quotation mark" if is_long else "mend the quotation marks"
                kind = "has a field that is too long" if is_long else "is not valid CSV"
                raise DataError(f"{path}:{line} {kind} ({error}); {hint}") from None

    usual = csv.field_size_limit(LONGEST_FIELD)  # of the whole process
    try:
        return select(rows(), columns, path, notes)
    finally:
        csv.field_size_limit(usual)


def select(rows: Iterable[tuple[list[str], int]], columns: tuple[str, ...], path: Path, notes: Notes) -> Records:
    """The wanted fields of every row; all rows must be as long as the first."""
    records: list[list[str]] = []
    line_numbers: list[int] = []
    header: list[str] = []
    places: list[int] = []
    for row, line in rows:
        if not row:
            notes.add("empty line of a table skipped", f"{path.name}:{line}")
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
            raise DataError(f"{path}:{line} has {len(row)} fields, the first line has {len(header)}; mend the line")
        records.append([row[place] for place in places])
        line_numbers.append(line)
    return records, line_numbers


def from_jsonl(lines: list[str], columns: tuple[str, ...], path: Path, notes: Notes) -> Records:
    """One JSON object a line; numbers and true/false become the text that JSON writes for them."""
    records: list[list[str]] = []
    line_numbers: list[int] = []
    for i, line in enumerate(lines, 1):
        if not line.strip():
            notes.add("empty line of a table skipped", f"{path.name}:{i}")
            continue
        record = parse_json(line, f"{path}:{i}")
        if not isinstance(record, dict):
            raise DataError(f"{path}:{i} must be a JSON object such as {{{columns[0]!r}: ...}}, got {line[:40]!r}")
        missing = [column for column in columns if column not in record]
        if missing:
            raise DataError(f"{path}:{i} has no {missing[0]!r}; it has: {', '.join(record)[:200]}")
        records.append([as_text(record[column], f"{path}:{i}", column) for column in columns])
        line_numbers.append(i)
    return records, line_numbers


def parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=each_once)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{where} is not valid JSON ({error}); mend it") from None
    except ValueError as error:  # a key twice, or a number of thousands of digits
        raise DataError(f"{where} cannot be read: {error}; mend it") from None


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of a key that is there twice nobody knows which value is meant."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"an object has {key!r} twice")
        found[key] = value
    return found


def as_text(value: object, where: str, column: str) -> str:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"{where}: {column!r} holds half a surrogate pair (\\ud800-\\udfff), no character"
            ) from None
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}: {column!r} is {json.dumps(value)}, no finite number; mend it")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise DataError(f"{where}: {column!r} must be text, got {json.dumps(value)[:40]}")


TABLES: dict[str, Callable[[list[str], tuple[str, ...], Path, Notes], Records]] = {
    ".tsv": from_tsv,
    ".csv": from_csv,
    ".jsonl": from_jsonl,
}
