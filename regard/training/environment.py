"""The machine under a training: a compiler, the same numbers every time, memory taken, what a resumed run stands on."""

import json
import platform
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import regard
from regard.choose import choose
from regard.learning.device import COMPILING
from regard.models.interface import Model
from regard.nn.compiler import compile_failure
from regard.runs.card import RunEnvironment
from regard.runs.durable import write_file
from regard.runs.records import read_record


def compile_model(model: Model, mode: str, device: torch.device) -> str:
    """Compile in place, so that names of weights stay; returns what was done, in words."""
    if not choose(COMPILING, mode, "compile")(device):
        return "eager"
    failure = compile_failure(device.type)
    if failure:
        return f"eager, because nothing can be compiled here ({failure})"
    model.compile_passes()
    return "compiled"


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """On CPU, the same numbers every time: gradients of indexing otherwise depend on the threads' order."""
    if device.type != "cpu":
        yield
        return
    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = False  # a guard against reading memory unset, at the price of time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        settings.fill_uninitialized_memory = before[1]


def peak_memory(device: torch.device) -> int:
    """Bytes taken at most so far: of the GPU, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024  # Linux counts KiB


def record_environment(
    folder: Path, step: int, device: torch.device, precision: str, compiled: str, is_kept: bool = True
) -> tuple[RunEnvironment, list[str]]:
    """Write environment.json, if it is to be kept; returns what a run stands on and what, after a resume, differs."""
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    now: RunEnvironment = {
        "device": f"{device.type} ({chip})",
        "precision": precision,
        "compile": compiled,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "regard": regard.__version__,
    }
    path = folder / "environment.json"
    record = read_record(path) or {}
    before, changes = record.get("now"), record.get("changes")
    if not isinstance(before, dict) or not isinstance(changes, list):  # there is none yet, or it is damaged
        before, changes = now, []
    differs = [
        f"{name} was {before.get(name)!r}, is {value!r}" for name, value in now.items() if before.get(name) != value
    ]
    if differs:
        changes.append({"step": step, "differs": differs})
    if is_kept:
        write_file(path, json.dumps({"now": now, "changes": changes}, indent=2).encode())
    return now, differs
