"""The training files of a run, recognized by their content: a run is resumed on the same text or not at all."""

import hashlib
import json
from pathlib import Path

from regard.data.config import DataConfig
from regard.errors import RunError
from regard.runs.durable import write_file

FILE = "data.json"


def remember_data(folder: Path, data: DataConfig) -> None:
    write_file(folder / FILE, json.dumps({"train": digests(data)}, indent=2).encode())


def refuse_other_data(folder: Path, data: DataConfig) -> None:
    """Their place and names do not matter.  A run without this file, from an older version, is trusted."""
    if not (folder / FILE).is_file():
        return
    before, now = json.loads((folder / FILE).read_text(encoding="utf-8"))["train"], digests(data)
    if before == now:
        return
    changed = [name for i, name in enumerate(data.train) if now[i : i + 1] != before[i : i + 1]]
    which = ", ".join(changed) or "there were more files"
    raise RunError(
        f"the data are not those that {folder} was trained on: {which}. Nothing was changed; bring back the "
        "files and the settings of the data, or start another run from these weights with "
        f"--from {folder}"
    )


def digests(data: DataConfig) -> list[str]:
    return [digest(Path(data.root) / name) for name in data.train]


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
