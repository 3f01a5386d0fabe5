"""Where the weights of a run began: origin.json names the run that --from gave and knows its weights again."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

from regard.errors import RunError
from regard.runs.checkpoints import find_weights
from regard.runs.durable import write_file
from regard.runs.weights import checksum

FILE = "origin.json"


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
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**record, "new": tuple(record["new"])})
        except (ValueError, TypeError, KeyError):
            raise RunError(f"{path} is damaged: it does not say where the weights began; copy it again") from None

    def write(self, folder: Path) -> None:
        write_file(folder / FILE, json.dumps(dataclasses.asdict(self), indent=2).encode())

    def find(self, folder: Path) -> Path:
        """The run again, if it still has the same weights."""
        run = Path(os.path.normpath(folder.resolve() / self.run))
        if not run.is_dir():
            raise RunError(f"{folder} needs the run that it began with, {run}, which is not there; bring it back")
        path, _ = find_weights(run)
        if checksum(path.read_bytes()) != self.sha256:
            raise RunError(f"{folder} began with other weights than {path} has now; bring back those of {self.weights}")
        return run
