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
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tiny_training import CONFIG, run_tiny

from regard.errors import RunError
from regard.runs import durable
from regard.runs.history import read_metrics
from regard.runs.weights import read_tensors
from regard.training import loop

HALF = "half"  # of a file is written
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
    """Train in a child process, which leaves its touches in a file, a line each: the event and the file."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    touches: list[str] = []

    def touch(event: str, path: object) -> None:
        if str(folder) in str(path):
            inside = str(path).removeprefix(str(folder))
            touches.append(f"{event} {re.sub('[0-9]+', 'N', inside)}")
            if len(touches) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in EVENTS:
            touch(event, arguments[0])

    write_in_halves(lambda path: touch(HALF, path))
    sys.addaudithook(hook)
    try:
        run_tiny(folder, dataclasses.replace(CONFIG, **settings), resume)
        content = "\n".join(touches)
        (folder / "touches").write_text(content)
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


def some_of(touches: list[str]) -> list[int]:
    """The last moment of each kind in which a file is half written, and of each in which one gets its name."""
    moments = {touch: moment for moment, touch in enumerate(touches, start=1)}
    return sorted(moment for touch, moment in moments.items() if touch.startswith((HALF, "os.rename")))


def kill_and_resume(root: Path, is_every: bool, settings: dict[str, object]) -> dict[str, object]:
    """Killed at every touch, or at some: how often it was, and the moments after which something was wrong."""
    whole = root / "whole"
    whole.mkdir(parents=True)  # as the others, so that a moment is the same in all of them
    assert in_child(whole, settings, resume=False, kill_at=None) == 0
    expected = outcome(whole)
    wrong, killed = [], 0
    touches = (whole / "touches").read_text().split("\n")
    moments = list(range(1, len(touches) + 1)) if is_every else some_of(touches)
    for moment in moments:
        run = root / f"killed-{moment}"
        run.mkdir()
        killed += in_child(run, settings, resume=False, kill_at=moment) == -signal.SIGKILL
        wrong += [(moment, name) for name in half_files(run)]
        again = in_child(run, settings, resume=True, kill_at=None)
        if again != 0 or outcome(run) != expected:
            wrong.append((moment, touches[moment - 1]))
    return {"moments": len(moments), "killed": killed, "wrong": wrong, "rows": len(expected["rows"])}


if __name__ == "__main__":
    root, is_every, all_settings = Path(sys.argv[1]), sys.argv[2] == "every", json.loads(sys.argv[3])
    torch.set_num_threads(1)
    loop.draw_curves = lambda run, figures: None  # slow, and not what is asked here
    durable.os.fsync = lambda descriptor: None  # a kill, unlike a power cut, loses nothing that was written
    run_tiny(root / "warm", CONFIG)  # PyTorch imports much on its first step: once, here, for all the children
    gc.freeze()  # nor do they walk, and copy, what was imported
    print(json.dumps({name: kill_and_resume(root / name, is_every, chosen) for name, chosen in all_settings.items()}))
