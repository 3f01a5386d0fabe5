"""A program that trains in children which kill themselves at their n-th touch of the run folder, and resumes them.

Python tells an audit hook of every file opened, renamed and removed, and files are written in two halves: before each
and between the halves a kill could leave something half done.  Prints, as JSON, for each of several settings by name,
what each resumed run ended with beside the uninterrupted one.
"""

import builtins
import dataclasses
import gc
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tiny_training import CONFIG, run_tiny

from regard.errors import RunError
from regard.runs import durable
from regard.runs.weights import read_tensors
from regard.training import loop
from regard.training.metrics import read_metrics

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")


def write_in_halves(between: Callable[[object], None]) -> None:
    """Every file opened for writing writes the first half of each piece, and calls `between` before the second."""
    plain = io.open

    def opened(path: object, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = plain(path, mode, *arguments, **options)
        if "r" in mode:
            return file
        write = file.write

        def in_halves(content: Any) -> int:
            middle = len(content) // 2
            write(content[:middle])
            file.flush()
            between(path)
            return middle + write(content[middle:])

        return Halving(file, in_halves)

    io.open = builtins.open = opened


class Halving:
    """A file with another way to write."""

    def __init__(self, file: Any, write: Callable[[Any], int]) -> None:
        self.file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "Halving":
        return self

    def __exit__(self, *raised: object) -> None:
        self.file.close()


def in_child(folder: Path, settings: dict[str, object], resume: bool, kill_at: int | None) -> int:
    """Train in a child process, which leaves the number of its touches in a file."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    touches = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal touches
        if event in EVENTS and str(folder) in str(arguments[0]):
            touches += 1
            if touches == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    write_in_halves(lambda path: hook("open", (path,)))
    sys.addaudithook(hook)
    try:
        run_tiny(folder, dataclasses.replace(CONFIG, **settings), resume)
        count = touches
        (folder / "touches").write_text(str(count))
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)


def outcome(folder: Path) -> dict[str, object]:
    rows = read_metrics(folder / "metrics.jsonl")
    weights = (folder / "model.safetensors").read_bytes().hex()
    figures = json.loads((folder / "result.json").read_text())
    return {"rows": rows, "weights": weights, "which": figures["weights"], "values": figures["values"]}


def half_files(folder: Path) -> list[str]:
    """Files under their own names that nobody can read: half of them was written."""
    unreadable = []
    for path in [*folder.glob("[!.]*.json"), *folder.glob("[!.]*.safetensors")]:
        try:
            json.loads(path.read_bytes()) if path.suffix == ".json" else read_tensors(path)
        except (ValueError, RunError):
            unreadable.append(path.name)
    return unreadable


def kill_and_resume(root: Path, every: int, settings: dict[str, object]) -> dict[str, object]:
    """Killed at every `every`-th touch: how often it was, and the moments after which something was wrong."""
    whole = root / "whole"
    assert in_child(whole, settings, resume=False, kill_at=None) == 0
    expected = outcome(whole)
    wrong, killed = [], 0
    n_touches = int((whole / "touches").read_text())
    for moment in range(1, n_touches + 1, every):
        run = root / f"killed-{moment}"
        run.mkdir()
        killed += in_child(run, settings, resume=False, kill_at=moment) == -signal.SIGKILL
        wrong += [(moment, name) for name in half_files(run)]
        again = in_child(run, settings, resume=True, kill_at=None)
        if again != 0 or outcome(run) != expected:
            wrong.append((moment, "outcome"))
    return {"touches": n_touches, "killed": killed, "wrong": wrong, "rows": len(expected["rows"])}


if __name__ == "__main__":
    root, every, all_settings = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    torch.set_num_threads(1)
    loop.draw_curves = lambda run, metric: None  # slow, and not what is asked here
    durable.os.fsync = lambda descriptor: None  # a kill, unlike a power cut, loses nothing that was written
    run_tiny(root / "warm", CONFIG)  # PyTorch imports much on its first step: once, here, for all the children
    gc.freeze()  # nor do they walk, and copy, what was imported
    print(json.dumps({name: kill_and_resume(root / name, every, chosen) for name, chosen in all_settings.items()}))
