"""What a run began with: origin.json names the run that --from gave and knows its weights again; data.json knows the
training files again by their content, because a run is resumed on the same text or not at all."""

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from regard.data.config import DataConfig
from regard.errors import RunError
from regard.runs.checkpoints import find_weights
from regard.runs.durable import write_file
from regard.runs.weights import checksum

ORIGIN, DATA = "origin.json", "data.json"


@dataclass(frozen=True, kw_only=True)
class Origin:
    run: str  # its folder, seen from the folder of this run, so that both may move together
    weights: str  # which of its weights, in words
    sha256: str  # of the file that holds them
    new: tuple[str, ...]  # the weights that it did not have, which began anew

    @classmethod
    def of(cls, run: Path, new: frozenset[str], folder: Path) -> "Origin":
        path, what = find_weights(run)
        seen = os.path.relpath(run.resolve(), folder.resolve())
        return cls(run=seen, weights=what, sha256=checksum(path.read_bytes()), new=tuple(sorted(new)))

    @classmethod
    def read(cls, folder: Path) -> "Origin | None":
        path = folder / ORIGIN
        if not path.is_file():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**record, "new": tuple(record["new"])})
        except (ValueError, TypeError, KeyError):
            raise RunError(f"{path} is damaged: it does not say where the weights began; copy it again") from None

    def write(self, folder: Path) -> None:
        write_file(folder / ORIGIN, json.dumps(dataclasses.asdict(self), indent=2).encode())

    def find(self, folder: Path) -> Path:
        """The run again, if it still has the same weights."""
        run = Path(os.path.normpath(folder.resolve() / self.run))
        if not run.is_dir():
            raise RunError(f"{folder} needs the run that it began with, {run}, which is not there; bring it back")
        path, _ = find_weights(run)
        if checksum(path.read_bytes()) != self.sha256:
            raise RunError(f"{folder} began with other weights than {path} has now; bring back those of {self.weights}")
        return run


def remember_data(folder: Path, data: DataConfig) -> None:
    write_file(folder / DATA, json.dumps({"train": digests(data)}, indent=2).encode())


def refuse_other_data(folder: Path, data: DataConfig) -> None:
    """Their place and names do not matter.  A run without this file, from an older version, is trusted."""
    if not (folder / DATA).is_file():
        return
    before, now = json.loads((folder / DATA).read_text(encoding="utf-8"))["train"], digests(data)
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
