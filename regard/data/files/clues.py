"""What files show before they are read: by their names which part of the data each is, and in which language; by their
beginnings, at most a megabyte of each, what is in them."""

import codecs
import csv
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.files.arrow import ARROW_KINDS, json_rows
from regard.data.files.reading import UNPACKERS, kind_of, read_bytes
from regard.data.files.records import TABLES, as_text, parse_json
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
HELD_OUT = 0.1  # of the training data, for validation, where no file is named for it
WORDS_OF_PARTS = {
    "train": ("train", "training"),
    "valid": ("valid", "validation", "val", "dev"),
    "test": ("test", "testing", "held", "t10k"),  # held-out; MNIST
}
LANGUAGES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
Files = dict[str, list[Path]]  # by the part of the data that they are


# Names.


def name_words(path: Path) -> list[str]:
    """ "test_2016_flickr.en.xz" → test, 2016, flickr, en; "trainImages.txt" → train, images, txt."""
    name = path.stem if path.suffix.lower() in UNPACKERS else path.name
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return [word for word in re.split(r"[\W_]+", words) if word]


def by_part(paths: Sequence[Path]) -> Files:
    """Which files are for training, validation and test, by their names; those of one part alone are for training.
    {} where none is."""
    parts: Files = {}
    for path in paths:
        parts.setdefault((parts_named(path) or ["train"])[0], []).append(path)
    if len(parts) == 1:
        parts = {"train": list(paths)}
    return parts if "train" in parts else {}


def parts_named(path: Path) -> list[str]:
    """The parts of the data that the words of a name mean, such as "valid" for dev.en.  An Arrow file has no telling
    name: its folder has."""
    words = name_words(path.parent if kind_of(path) == ".arrow" else path)
    return [part for word in words for part, known in WORDS_OF_PARTS.items() if word in known]


def column_names(pair: Sequence[Path]) -> list[str]:
    """What tells two names apart: their endings, or words that only one of them has."""
    words = [name_words(path) for path in pair]
    if words[0][-1:] != words[1][-1:]:
        return [own[-1] if own else "" for own in words]
    return ["-".join(word for word in own if word not in other) for own, other in (words, words[::-1])]


def data_settings(parts: Files, columns: Sequence[str] = ()) -> dict[str, object]:
    root = os.path.commonpath([path.absolute().parent for paths in parts.values() for path in paths])
    settings: dict[str, object] = {"root": root}
    for part, paths in parts.items():
        settings[part] = tuple(path.absolute().relative_to(root).as_posix() for path in paths)
    if columns:
        settings["columns"] = tuple(columns)
    if "valid" not in parts:
        settings["valid_share"] = HELD_OUT
    return settings


# Beginnings.


@dataclass(frozen=True)
class Beginning:
    path: Path
    kind: str  # ".csv"
    text: str
    lines: list[str]  # whole ones, without their ends
    n_lines: int | None  # of the whole file; None: it goes on


def begin(path: Path) -> Beginning | None:
    """None of what is not text in UTF-8, cannot be read, or has nothing in it."""
    try:
        if not path.is_file():
            return None
        if kind_of(path) in ARROW_KINDS:
            rows = json_rows(path, N_LINES + 1)
            return Beginning(
                path, ".jsonl", "\n".join(rows), rows[:N_LINES], None if len(rows) > N_LINES else len(rows)
            )
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
    return Beginning(path, kind_of(path), text, lines[:N_LINES], len(lines) if is_whole else None)


def begin_parts(paths: Sequence[Path]) -> tuple[Files, list[Beginning]]:
    """The files of each part and all their beginnings; nothing of either if one of them is not text."""
    parts = by_part(paths)
    beginnings = [begin(path) for files in parts.values() for path in files]
    texts = [beginning for beginning in beginnings if beginning is not None]
    return (parts, texts) if len(texts) == len(beginnings) else ({}, [])


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
        return json_columns(json_records(beginning)) if beginning.kind == ".jsonl" else delimited_columns(beginning)
    except (DataError, csv.Error):
        return {}


def json_columns(records: list[dict[str, object]]) -> dict[str, list[str]]:
    """Of those values that are no lists or objects, and that every record has."""
    names = list(records[0]) if records else []
    shared = [name for name in names if all(isinstance(record.get(name), str | int | float) for record in records)]
    return {name: [as_text(record[name], "", name) for record in records] for name in shared}


def delimited_columns(beginning: Beginning) -> dict[str, list[str]]:
    lines = list(beginning.lines)
    if beginning.kind == ".csv":
        while sum(line.count('"') for line in lines) % 2:  # a field goes on after what was read
            lines.pop()
    first = next(csv.reader(lines), []) if beginning.kind == ".csv" else lines[0].split("\t") if lines else []
    numbers = [str(i + 1) for i in range(len(first))]
    if len(numbers) < 2:
        return {}
    rows = [row for row, _ in TABLES[beginning.kind](lines, tuple(numbers), beginning.path, Notes())]
    names, records = (rows[0], rows[1:]) if is_header(rows[0], rows[1:]) else (numbers, rows)
    return {name: [record[i] for record in records] for i, name in enumerate(names)}


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
