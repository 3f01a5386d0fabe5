"""The training files of a run, known again by their content: a resumed run goes on with the same text or not at all."""

import hashlib
import json
from pathlib import Path

from regard.data.config import DataConfig
from regard.errors import RunError
from regard.runs.durable import write_file

FILE = "data.json"
CHUNK = 1 << 20  # bytes read at a time


def remember_data(folder: Path, data: DataConfig) -> None:
    write_file(folder / FILE, json.dumps({"train": digests(data)}, indent=2).encode())


def refuse_other_data(folder: Path, data: DataConfig) -> None:
    """Where they lie does not matter, nor what they are called.  A run from before this file was kept is believed."""
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
    found = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return found.hexdigest()
