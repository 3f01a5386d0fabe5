"""Parquet and Arrow files, and the folders that Hugging Face's `datasets` saves: rows as the lines of JSONL have them.

A column of class labels has their names, where the file tells them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.errors import DataError, need

PARQUET = ".parquet"
ARROW_KINDS = (PARQUET, ".arrow")
STATE = "state.json"  # of a folder that `datasets` saved: lists the files of one part
PARTS = "dataset_dict.json"  # of one with several parts: lists their folders


def arrow_table(path: Path, most: int | None = None) -> Any:
    """A table of pyarrow: all rows, or so many at most."""
    if path.suffix.lower() not in ARROW_KINDS:
        raise DataError(f"{path}: a Parquet or Arrow file is compressed inside; unpack it")
    if not path.is_file():
        raise DataError(f"no file {path}; check its name and its folder (data.root of a recipe)")
    arrow = need("pyarrow", "parquet")
    kind = "Parquet" if path.suffix.lower() == PARQUET else "Arrow"
    try:
        table = need("pyarrow.parquet", "parquet").read_table(path) if kind == "Parquet" else read_ipc(arrow, path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {error}; it may be incomplete: copy it again") from None
    if not table.num_rows:
        raise DataError(f"{path} has no rows")
    return table if most is None else table.slice(0, most)


def read_ipc(arrow: Any, path: Path) -> Any:
    """Arrow's own format: a stream, as `datasets` writes it, or a file with an index."""
    ipc = need("pyarrow.ipc", "parquet")
    with arrow.memory_map(str(path)) as source:
        try:
            return ipc.open_stream(source).read_all()
        except arrow.ArrowInvalid:
            source.seek(0)
            return ipc.open_file(source).read_all()


def json_rows(path: Path, most: int | None = None) -> list[str]:
    """Each row as a line of JSON."""
    table = arrow_table(path, most)
    names = class_names(table.schema.metadata or {})
    return [json.dumps(named(row, names), ensure_ascii=False, default=written) for row in table.to_pylist()]


def class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """What `datasets` says about columns of class labels: the name of each number."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        labels = {column: feature["names"] for column, feature in features.items() if feature["_type"] == "ClassLabel"}
    except (KeyError, TypeError, ValueError):
        return {}
    return {column: names for column, names in labels.items() if isinstance(names, list)}


def named(row: dict[str, object], names: dict[str, list[str]]) -> dict[str, object]:
    for column, known in names.items():
        number = row.get(column)
        if isinstance(number, int) and 0 <= number < len(known):
            row[column] = known[number]
    return row


def written(value: Any) -> str:
    """A value that JSON does not have: times as ISO 8601 has them."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)


# Folders.


def arrow_files(folder: Path) -> list[Path]:
    """The files of a folder that `datasets` saved, or of one that holds Parquet files; [] of any other."""
    if (folder / PARTS).is_file():
        splits = read_json(folder / PARTS).get("splits", [])
        return [path for split in splits if isinstance(split, str) for path in arrow_files(folder / split)]
    if (folder / STATE).is_file():
        listed = read_json(folder / STATE).get("_data_files", [])
        return [folder / entry["filename"] for entry in listed if isinstance(entry, dict) and "filename" in entry]
    return sorted(folder.glob(f"*{PARQUET}")) or sorted((folder / "data").glob(f"*{PARQUET}"))


def read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    return record if isinstance(record, dict) else {}


def spread_out(paths: Sequence[Path]) -> Iterator[Path]:
    """The same, with the files of such folders in place of them."""
    for path in paths:
        yield from (arrow_files(path) if path.is_dir() else []) or [path]
