"""Folders of a cache: whole or absent, named for what they were made from, and checked before they are used."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np


def is_unharmed(folder: Path, files: Sequence[str]) -> bool:
    """Whether all files are what was written."""
    try:
        digests = json.loads((folder / "digests.json").read_text(encoding="utf-8"))
        return bool(digests == {name: digest(folder / name) for name in files})
    except (OSError, ValueError):
        return False


def write_whole(folder: Path, files: Sequence[str], write: Callable[[Path], None]) -> None:
    """Written beside and renamed: a folder that has its name is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        write(beside)
        digests = {name: digest(beside / name) for name in files}
        (beside / "digests.json").write_text(json.dumps(digests), encoding="utf-8")
        if is_unharmed(folder, files):  # another process was faster, and reads it by now
            return
        shutil.rmtree(folder, ignore_errors=True)  # what is there now did not pass the check
        try:
            beside.rename(folder)
        except OSError:
            if not is_unharmed(folder, files):  # otherwise another process was faster and made the same
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def save_array(path: Path, array: np.ndarray) -> None:
    """As `np.save` does, which hides the reason when a disk is full."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(np.ascontiguousarray(array).data)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
