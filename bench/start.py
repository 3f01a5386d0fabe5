"""How long one waits before anything happens: `import regard` and `regard --help`, each in a fresh process."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import torch

from bench.machine import is_there
from bench.report import Report, Row
from bench.timing import take_turns

ROOT = Path(__file__).parents[1]
ROUNDS = 5
IMPORTS = ("torch", "transformers", "ctranslate2")


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    commands = {
        ("import", "regard"): ["-c", "import regard"],
        ("import", "Python alone"): ["-c", "pass"],
        ("command line", "regard --help"): ["-m", "regard", "--help"],
    }
    if not tiny:
        commands |= {("import", name): ["-c", f"import {name}"] for name in IMPORTS if is_there(name)}
    commands = {key: command for key, command in commands.items() if key[1] not in skip}
    runs = {" / ".join(key): partial(start, command) for key, command in commands.items()}
    for go in runs.values():
        go()  # fills the disk's cache and writes the .pyc files
    taken = take_turns(runs, rounds or ROUNDS, torch.device("cpu"))
    report = Report("start", "ms", "from nothing to the end of a fresh process", less_is_better=True)
    for case, name in sorted(commands, reverse=True):
        report.rows.append(Row(case=case, contender=name, figures=taken[f"{case} / {name}"].milliseconds()))
    return report


def start(command: list[str]) -> None:
    subprocess.run([sys.executable, *command], check=True, capture_output=True, cwd=ROOT)
