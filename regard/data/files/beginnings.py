"""The beginning of a file, read to see what is in it: at most a megabyte, whatever the size of the file."""

import codecs
import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files.reading import kind_of, read_bytes
from regard.data.files.tables import TABLES, as_text, parse_json
from regard.data.notes import Notes
from regard.errors import DataError

N_BYTES = 1 << 20
N_LINES = 10_000  # looked at
N_CHARACTERS = 100_000  # of them, to see whether they are letters
FEWEST_LETTERS = 0.5  # of the characters of text
SYMBOLS = 0x2E80  # from here on characters stand for words, and there are no spaces between them
LONGEST_LABEL = 40  # characters
NAME = re.compile(r"[^\W\d][\w.-]{0,39}")  # a name of a column
TITLES = {"text", "sentence", "label", "class", "category", "source", "target", "question", "answer", "id"}


@dataclass(frozen=True)
class Beginning:
    path: Path
    text: str
    lines: list[str]  # whole ones, without their ends
    n_lines: int | None  # of the whole file; None: it goes on

    @property
    def kind(self) -> str:
        return kind_of(self.path)


def begin(path: Path) -> Beginning | None:
    """None of what is not text in UTF-8, cannot be read, or has nothing in it."""
    try:
        if not path.is_file():
            return None
        data = read_bytes(path, N_BYTES + 1)
        is_whole = len(data) <= N_BYTES
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(data[:N_BYTES], final=is_whole)
    except (OSError, DataError, UnicodeDecodeError):
        return None
    if not text.strip() or "\0" in text:
        return None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if not is_whole or not lines[-1]:
        lines.pop()
    return Beginning(path, text, lines[:N_LINES], len(lines) if is_whole else None)


def begin_all(paths: Iterable[Path]) -> list[Beginning] | None:
    """None if one of them is not text."""
    beginnings = [begin(path) for path in paths]
    texts = [beginning for beginning in beginnings if beginning is not None]
    return texts if len(texts) == len(beginnings) else None


def json_records(beginning: Beginning) -> list[dict[str, object]]:
    """The objects of a JSONL file; [] where a line is something else."""
    try:
        values = [parse_json(line, "") for line in beginning.lines if line.strip()]
    except DataError:
        return []
    records = [value for value in values if isinstance(value, dict)]
    return records if len(records) == len(values) else []


def columns_of(beginning: Beginning) -> dict[str, list[str]]:
    """The columns of a table by name, or by number where the first line does not name them; {} if it is no table."""
    if beginning.kind not in TABLES:
        return {}
    try:
        return json_columns(beginning) if beginning.kind == ".jsonl" else delimited_columns(beginning)
    except (DataError, csv.Error):
        return {}


def json_columns(beginning: Beginning) -> dict[str, list[str]]:
    """Of those values that are no lists or objects, and that every record has."""
    records = json_records(beginning)
    names = [name for name in (records[0] if records else {}) if all(is_plain(record.get(name)) for record in records)]
    return {name: [as_text(record[name], "", name) for record in records] for name in names}


def is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def delimited_columns(beginning: Beginning) -> dict[str, list[str]]:
    lines = list(beginning.lines)
    if beginning.kind == ".csv":
        while sum(line.count('"') for line in lines) % 2:  # a field goes on after what was read
            lines.pop()
    first = next(csv.reader(lines), []) if beginning.kind == ".csv" else lines[0].split("\t") if lines else []
    numbers = tuple(str(i + 1) for i in range(len(first)))
    if len(numbers) < 2:
        return {}
    rows = [row for row, _ in TABLES[beginning.kind](lines, numbers, beginning.path, Notes())]
    if is_header(rows[0], rows[1:]):
        return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
    return {name: [row[i] for row in rows] for i, name in enumerate(numbers)}


def is_header(first: list[str], rows: list[list[str]]) -> bool:
    """Names that are all different and do not occur again, as in "text<tab>label"."""
    if not rows or len(set(first)) < len(first) or not all(NAME.fullmatch(cell) for cell in first):
        return False
    is_new = all(cell not in column for cell, column in zip(first, zip(*rows, strict=True), strict=True))
    return is_new and all(cell == cell.lower() or cell == cell.upper() or cell.lower() in TITLES for cell in first)


# What a column holds.


def is_text(values: Sequence[str]) -> bool:
    """Mostly letters, mostly several words, mostly different from one another."""
    n_long = sum(" " in value.strip() or any(ord(c) >= SYMBOLS for c in value) for value in values)
    return has_letters(values) and n_long >= len(values) / 2 and not is_label(values)


def has_letters(values: Sequence[str]) -> bool:
    characters = "".join("".join(values)[:N_CHARACTERS].split())
    return sum(map(str.isalpha, characters)) > FEWEST_LETTERS * len(characters)


def is_label(values: Sequence[str]) -> bool:
    """Short, and few different ones."""
    is_short = all(value.strip() and len(value) <= LONGEST_LABEL for value in values)
    return is_short and len(set(values)) <= most_labels(len(values))


def most_labels(n_examples: int) -> int:
    return max(3, n_examples // 4)
