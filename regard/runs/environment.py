"""What a run stood on: device, precision, compiler, threads, versions; and what differs when it is resumed."""

import json
import platform
from pathlib import Path

import torch

import regard
from regard.runs.durable import write_file

Environment = dict[str, str | int]


def describe_environment(device: torch.device, precision: str, compiled: str) -> Environment:
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device.type} ({chip})",
        "precision": precision,
        "compile": compiled,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "regard": regard.__version__,
    }


def record_environment(folder: Path, now: Environment, step: int) -> list[str]:
    """Write environment.json; returns, for a resumed run, what differs from before."""
    path = folder / "environment.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        record = {"now": now, "changes": []}
    differs = [
        f"{name} was {record['now'].get(name)!r}, is {value!r}"
        for name, value in now.items()
        if record["now"].get(name) != value
    ]
    if differs:
        record["changes"].append({"step": step, "differs": differs})
    record["now"] = now
    write_file(path, json.dumps(record, indent=2).encode())
    return differs
