"""Data of any size: what it takes to tokenize pairs of lines, to make an epoch's order and batches, and to report on
them, by the number of lines.  Every figure is of a fresh process."""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import torch

from bench.memory import STATUS, status
from bench.report import Report, Row
from bench.timing import Figures, say
from regard.data.corpora.grammar import combinations
from regard.errors import DataError
from regard.runs.inheriting import read_recipe
from regard.tasks.task import AnyTask
from regard.text import Tokenizer

SIZES = (10**4, 10**5, 10**6, 10**7)
BYTES_PER_LINE = 400  # of disk: both texts, tokens, and tokens once more while they are joined
N_TRAINED = 10_000  # lines that the tokenizer learns from
N_BATCHES = 500  # made of an epoch
EVERY = 0.02  # seconds between two looks at the memory


@dataclass(frozen=True, kw_only=True)
class Growth(Row):
    n_lines: int
    seconds: float


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    """On the CPU, whatever the device.  `--skip 10000000` leaves the largest size out."""
    sizes = [n for n in ((1000, 3000) if tiny else SIZES) if str(n) not in skip]
    report = Report(
        "growth-data", "µs a line", "pairs of short lines that stay on disk, one process", less_is_better=True
    )
    with tempfile.TemporaryDirectory(prefix="growth-data-") as folder:
        needed = BYTES_PER_LINE * sizes[-1]
        if shutil.disk_usage(folder).free < 2 * needed:
            raise DataError(f"this takes {needed / 1e9:.0f} GB of disk in {folder}, and half of it should stay free")
        for n in sizes:
            say(f"{n:,} lines")
            root = Path(folder) / str(n)
            write(root, n)
            for stage in STAGES:
                seconds, memory = in_fresh_process(root, stage)
                figures = Figures([1e6 * seconds / n])
                case = f"{n:,} lines"
                row = Growth(case=case, contender=stage, figures=figures, memory=memory, n_lines=n, seconds=seconds)
                report.rows.append(row)
            shutil.rmtree(root)
    report.notes.append("memory: the most that the process held of its own (RssAnon), above what it began with")
    for stage in STAGES:
        rows = [row for row in report.rows if isinstance(row, Growth) and row.contender == stage]
        per_line = [(b.seconds - a.seconds) / (b.n_lines - a.n_lines) for a, b in pairwise(rows)]
        shown = ", ".join(f"{1e6 * each:.2f}" for each in per_line)
        report.notes.append(f"{stage}: µs of each further line, from size to size: {shown}")
    return report


def write(root: Path, n: int) -> None:
    """n pairs of sentences of the grammar, each with a number."""
    root.mkdir()
    pairs = [(sentence.english(), sentence.french()) for sentence in islice(combinations(), 20_000)]
    chance = random.Random(0)
    chance.shuffle(pairs)
    with (root / "train.en").open("w", encoding="utf-8") as en, (root / "train.fr").open("w", encoding="utf-8") as fr:
        for i in range(n):
            english, french = pairs[(i * 7919) % len(pairs)]
            en.write(f"{english} {i % 9973}\n")
            fr.write(f"{french} {i % 9973}\n")
    with (root / "train.en").open(encoding="utf-8") as en, (root / "train.fr").open(encoding="utf-8") as fr:
        lines = [line.rstrip("\n") for file in (en, fr) for line in islice(file, N_TRAINED)]
    recipe = read_recipe("demo", settings(root), None)
    Tokenizer.train(lines, recipe.tokenizer).save(root / "tokenizer.json")


def settings(root: Path) -> list[str]:
    return [
        f'data.root="{root}"',
        "data.in_memory=1",
        "data.processes=1",
        "data.valid=[]",
        "data.test=[]",
        'data.order="grouped"',
        'tokenizer.kind="bpe"',
        "tokenizer.vocab_size=8000",
    ]


def make(root: Path) -> AnyTask:
    recipe = read_recipe("demo", settings(root), None)
    return recipe.task_class.make(recipe.task, recipe.setup(Tokenizer.load(root), root / "cache"))


def make_epoch(task: AnyTask) -> None:
    for index in range(min(task.n_batches(0), N_BATCHES)):
        task.batch(0, index)


STAGES: dict[str, Callable[[AnyTask], object]] = {
    "tokenize": lambda task: None,  # it is made of files, and that is all
    "open, order an epoch, make batches": make_epoch,
    "open, report": lambda task: task.inspect(),
}


class Peak(threading.Thread):
    """Looks at the memory of this process again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before = self.most = own_memory()
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(EVERY):
            self.most = max(self.most, own_memory())


def own_memory() -> int:
    """Without what is mapped from files, which the system takes back whenever it needs the room."""
    return status("RssAnon") if STATUS.exists() else 0


def in_fresh_process(root: Path, stage: str) -> tuple[float, int]:
    command = [sys.executable, "-m", "bench.growth_data", str(root), stage]
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, memory


def main() -> None:
    root, stage = Path(sys.argv[1]), sys.argv[2]
    peak = Peak()
    peak.start()
    begin = time.perf_counter()
    STAGES[stage](make(root))
    seconds = time.perf_counter() - begin
    peak.is_over.set()
    peak.join()
    print(json.dumps([seconds, peak.most - peak.before]))


def draw(report: Report, path: Path) -> None:
    """Time and memory by the number of lines."""
    from regard.viewer import style  # matplotlib takes a second to import

    rows = [row for row in report.rows if isinstance(row, Growth)]
    figure = style.blank(10.4, 4.2)
    seconds, memory = figure.subplots(1, 2)
    for stage, color, mark in zip(STAGES, style.LINES, "osD", strict=False):
        drawn = [row for row in rows if row.contender == stage]
        lines = [row.n_lines for row in drawn]
        seconds.plot(lines, [row.seconds for row in drawn], color=color, marker=mark, markersize=4, label=stage)
        mebibytes = [(row.memory or 0) / 2**20 for row in drawn]
        memory.plot(lines, mebibytes, color=color, marker=mark, markersize=4, label=stage)
    for axes, title in ((seconds, "seconds"), (memory, "MiB of its own, at most")):
        axes.set_xscale("log")
        axes.set_title(f"{title}, by lines", fontsize=10, color=style.INK, loc="left")
        axes.grid(color=style.RULE, linewidth=0.6)
        style.plain(axes)
    seconds.set_yscale("log")
    memory.set_ylim(bottom=0)
    seconds.legend(fontsize=7, frameon=False)
    figure.suptitle(report.work, fontsize=10, color=style.INK)
    figure.savefig(path, format="png")


if __name__ == "__main__":
    main()
