"""What a resumed run must have as before: its data, and the settings that its weights and its state belong to."""

import hashlib
import json
from pathlib import Path

from regard.data.config import DataConfig
from regard.errors import RunError
from regard.runs.durable import write_file
from regard.runs.recipe import Recipe
from regard.runs.records import read_record

DATA = "data.json"  # knows the files again by their content: a run is resumed on the same text or not at all

# Tables whose settings stay as they were, but for some that change nothing of what was trained.
FIXED: dict[str, set[str]] = {
    "model": {"dropout", "recurrent_dropout", "embedding_dropout", "feature_dropout", "input_dropout", "output_dropout"}
    | {"activation_penalty", "change_penalty"},
    "tokenizer": {"dropout"},
    "lora": {"merge"},
    "distribution": {"kind", "exact", "threads", "timeout"},  # places in the data count shards
    "data": {"root", "cache", "train", "valid", "test", "processes"},  # files are known by their content
}
# The state of the optimizer is its own, and of what learns.
FIXED_ALONE = {("training", "optimizer"), ("training", "frozen"), ("training", "last_layers")}
FIXED_ALONE |= {("training", "seed"), ("task", "kind"), ("task", "metric")}  # the best value so far is of that metric


def refuse_other_settings(folder: Path, before: Recipe, now: Recipe) -> list[tuple[str, str]]:
    """Raise where a setting makes another training of it; returns the other changes as rows to be shown."""
    changes = list(now.changes(before))
    for table, name, old, new in changes:
        if (table, name) in FIXED_ALONE or (table in FIXED and name not in FIXED[table]):
            raise RunError(
                f"{table}.{name} = {shown(new)} does not fit {folder}, which was trained with {shown(old)}. Nothing "
                f"was changed; leave it out, or start another run from these weights with --from {folder}"
            )
    return [("changed", f"{table}.{name} was {shown(old)}, is {shown(new)}") for table, name, old, new in changes]


def shown(value: object) -> str:
    return "nothing" if value is None else repr(value)


def record_data(folder: Path, data: DataConfig) -> None:
    write_file(folder / DATA, json.dumps(digests(data), indent=2).encode())


def refuse_other_data(folder: Path, data: DataConfig) -> None:
    """Their place and names do not matter.  A run without this file, from an older version, is trusted, and so is one
    that knows of no validation data."""
    path = folder / DATA
    if not path.is_file():
        return
    before, now = read_record(path) or {}, digests(data)
    if not isinstance(before.get("train"), list) or not isinstance(before.get("valid", []), list):
        raise RunError(
            f"{path} is damaged: whether the data are those that {folder} was trained on cannot be "
            f"checked. Copy it again; or, if you are sure of the data, remove it and resume"
        )
    refuse_other_files(folder, data.train, before["train"], now["train"])
    if before.get("valid") and now["valid"]:
        refuse_other_files(folder, data.valid, before["valid"], now["valid"])


def refuse_other_files(folder: Path, names: tuple[str, ...], before: list[str], now: list[str]) -> None:
    if before == now:
        return
    changed = [name for i, name in enumerate(names) if now[i : i + 1] != before[i : i + 1]]
    which = ", ".join(changed) or "there were more files"
    raise RunError(
        f"the data are not those that {folder} was trained on: {which}. Nothing was changed; bring back the "
        "files and the settings of the data, or start another run from these weights with "
        f"--from {folder}"
    )


def digests(data: DataConfig) -> dict[str, list[str]]:
    parts = {"train": data.train, "valid": data.valid}
    return {part: [digest(Path(data.root) / name) for name in names] for part, names in parts.items()}


def digest(path: Path) -> str:
    """Of a file, or of all files in a folder: their names and what is in them."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        named = (f"{file.relative_to(path).as_posix()}\0{digest(file)}\n" for file in files)
        return hashlib.blake2b("".join(named).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
