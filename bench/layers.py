"""python -m bench.layers: table 1 of "Attention Is All You Need", its formulas next to measured time and memory.

One layer of each kind, forward and backward, by the length of the sequence.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.memory import GpuPeak, process_peak
from bench.report import Report, Row, as_json, print_machine, readable
from bench.table1 import LAYERS, measured_path
from bench.timing import Figures, take_turns
from regard.learning.device import choose_device
from regard.nn.layout import Ragged

N_FITTED = 4  # the longest lengths, which tell the exponent: before them other costs hide it
PATH_OVER = 257  # tokens over which the longest path is also measured
BELOW = 4  # layers below the measured one: the fifth of a dilated stack has a dilation of 16
WARMED = 16  # tokens that first load the libraries


@dataclass(frozen=True, kw_only=True)
class Plan:
    d_model: int
    n_sequences: int
    lengths: tuple[int, ...]
    rounds: int
    dtype: torch.dtype
    memory: bool  # also measured; on a CPU it takes a fresh process for each figure


LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
PLANS = {
    "cpu": Plan(d_model=256, n_sequences=1, lengths=LENGTHS, rounds=3, dtype=torch.float32, memory=True),
    "cuda": Plan(d_model=512, n_sequences=8, lengths=LENGTHS, rounds=5, dtype=torch.bfloat16, memory=True),
    "tiny": Plan(d_model=16, n_sequences=2, lengths=(8, 16, 80), rounds=1, dtype=torch.float32, memory=False),
}


@dataclass(frozen=True, kw_only=True)
class Point(Row):
    n: int  # tokens of a sequence


@dataclass
class LayersReport(Report):
    d_model: int = 0

    def points(self, name: str) -> list[Point]:
        return [row for row in self.rows if isinstance(row, Point) and row.contender == name]

    def names(self) -> list[str]:
        return [name for name in LAYERS if self.points(name)]

    def exponents(self, name: str) -> dict[str, float | None]:
        """x of n^x: of the table, of our count of multiplications, of the measured time and memory."""
        layer, longest = LAYERS[name], self.points(name)[-N_FITTED:]
        n = [point.n for point in longest]
        return {
            "table": layer.exponent,
            "counted": slope(n, [layer.operations(length, self.d_model) for length in n]),
            "time": slope(n, [point.figures.median for point in longest]),
            "memory": slope(n, [point.memory or 0 for point in longest]),
        }

    def to_json(self) -> dict[str, Any]:
        layers = {
            name: {
                "complexity": LAYERS[name].complexity,
                "sequential": LAYERS[name].sequential,
                "path": LAYERS[name].path,
                "exponents": self.exponents(name),
                "by_length": [
                    {
                        "n": point.n,
                        "operations": LAYERS[name].operations(point.n, self.d_model),
                        "steps": LAYERS[name].steps(point.n),
                        "longest_path": LAYERS[name].longest_path(point.n),
                    }
                    for point in self.points(name)
                ],
            }
            for name in self.names()
        }
        return super().to_json() | {"layers": layers}

    def print(self, console: Console) -> None:
        measured = Table(title=f"{self.name}: {self.work}", title_justify="left", box=box.SIMPLE_HEAD)
        measured.add_column("tokens", justify="right", no_wrap=True)
        measured.add_column("layer", no_wrap=True)
        for heading in (self.unit, "±", "MiB", "10⁶ products", "steps", "path"):
            measured.add_column(heading, justify="right", no_wrap=True)
        for n in sorted({point.n for name in self.names() for point in self.points(name)}):
            measured.add_section()
            for i, point in enumerate(p for name in self.names() for p in self.points(name) if p.n == n):
                layer = LAYERS[point.contender]
                measured.add_row(
                    "" if i else f"{n:,}",
                    point.contender,
                    readable(point.figures.median),
                    f"{point.figures.spread:.0%}",
                    "" if point.memory is None else f"{point.memory / 2**20:,.0f}",
                    readable(layer.operations(n, self.d_model) / 1e6),
                    f"{layer.steps(n):,}",
                    f"{layer.longest_path(n):,}",
                )
        console.print(measured)
        self.print_formulas(console)
        for note in self.notes:
            console.print(f"- {note}", markup=False, highlight=False)
        console.print()

    def print_formulas(self, console: Console) -> None:
        formulas = Table(
            title=f"the formulas; x of n^x in the table, as counted, of time and of memory; the path over {PATH_OVER}",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            collapse_padding=True,
        )
        for heading in ("layer", "cost", "steps", "path"):
            formulas.add_column(heading, no_wrap=True)
        for heading in ("x: table", "counted", "time", "memory", "measured path"):
            formulas.add_column(heading, justify="right", no_wrap=True)
        for name in self.names():
            layer = LAYERS[name]
            exponents = ["" if x is None else f"{x:.2f}" for x in self.exponents(name).values()]
            path = str(measured_path(layer, PATH_OVER))
            formulas.add_row(name, layer.complexity, layer.sequential, layer.path, *exponents, path)
        console.print(formulas)


def slope(n: list[int], values: Iterable[float]) -> float | None:
    """x of the n^x nearest to the values: a straight line through their logarithms."""
    figures = list(values)
    if len(n) < 2 or min(figures) <= 0:
        return None
    return float(np.polyfit(np.log(n), np.log(figures), 1)[0])


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> LayersReport:
    plan = PLANS["tiny" if tiny else device.type]
    work = f"one layer of width {plan.d_model}, {plan.n_sequences} sequences, forward and backward, {plan.dtype}"
    report = LayersReport("layers", "ms", work.replace("torch.", ""), less_is_better=True, d_model=plan.d_model)
    names = [name for name in LAYERS if name not in skip]
    for n in plan.lengths:
        repeats = max(1, plan.lengths[-1] // n // 4)  # a short sequence alone is too quick for a clock
        works = {}
        for name in names:
            try:
                works[name] = prepare(name, n, plan, device, repeats)
                works[name]()
            except torch.OutOfMemoryError as error:
                works.pop(name, None)
                report.notes.append(f"{name}: {n:,} tokens do not fit ({machine.reason(error)})")
        taken = take_turns(works, rounds or plan.rounds, device)
        memory = {name: peak(name, n, plan, device) if plan.memory else None for name in works}
        for name in works:
            figures = Figures([1000 * seconds / repeats for seconds in taken[name].rounds])
            report.rows.append(Point(case=f"{n:,}", contender=name, figures=figures, memory=memory[name], n=n))
    report.notes.append(f"x is fitted to the {N_FITTED} longest lengths; memory is above weights and input")
    report.notes.append("products: multiplications of the forward pass for one sequence, the projections with them")
    return report


def prepare(name: str, n: int, plan: Plan, device: torch.device, repeats: int = 1) -> Callable[[], None]:
    """One layer with its input -> what runs it `repeats` times, forward and backward."""
    torch.manual_seed(0)
    layer = LAYERS[name].make(plan.d_model, BELOW).to(device, plan.dtype)
    layout = Ragged([n] * plan.n_sequences).to(device)
    x = torch.randn(layout.n_rows, plan.d_model, device=device, dtype=plan.dtype, requires_grad=True)
    wanted = [x, *layer.parameters()]

    def work() -> None:
        for _ in range(repeats):
            out = layer(x, layout)
            torch.autograd.grad(out, wanted, torch.ones_like(out))

    return work


def peak(name: str, n: int, plan: Plan, device: torch.device) -> int | None:
    """Bytes at most, above weights and input."""
    if device.type == "cpu":
        return process_peak(prepare_warm, name, n, plan, torch.get_num_threads())
    work = prepare(name, n, plan, device)
    work()
    used = GpuPeak(device)
    used.restart()
    work()
    return used.bytes()


def prepare_warm(name: str, n: int, plan: Plan, threads: int) -> Callable[[], None]:
    """In a fresh process: what libraries take once is taken before."""
    torch.set_num_threads(threads)
    prepare(name, WARMED, plan, torch.device("cpu"))()
    return prepare(name, n, plan, torch.device("cpu"))


def draw(report: LayersReport, path: Path) -> None:
    """Time and, where measured, memory by length, both axes by their logarithm."""
    from regard.viewer import style  # matplotlib takes a second to import

    panels: dict[str, Callable[[Point], float | None]] = {
        "milliseconds": lambda point: point.figures.median,
        "MiB": lambda point: None if not point.memory else point.memory / 2**20,
    }
    drawn = {
        unit: {name: [(p.n, y) for p in report.points(name) if (y := value(p)) is not None] for name in report.names()}
        for unit, value in panels.items()
    }
    drawn = {unit: lines for unit, lines in drawn.items() if any(lines.values())}
    figure = style.blank(5.2 * len(drawn), 4.4)
    for axes, (unit, lines) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn.items(), strict=True):
        for (name, line), mark in zip(lines.items(), "osD^vP", strict=False):
            axes.plot(*zip(*line, strict=True), marker=mark, markersize=4, linewidth=1.4, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        lengths = sorted({n for line in lines.values() for n, _ in line})
        axes.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45)
        axes.set_xlabel("tokens of a sequence", color=style.INK)
        axes.set_ylabel(unit, color=style.INK)
        axes.grid(color=style.RULE, linewidth=0.6)
        style.plain(axes)
    figure.axes[0].legend(fontsize=8, frameon=False)
    figure.suptitle(report.work, fontsize=10, color=style.INK)
    figure.savefig(path, format="png")


def main(
    device: Annotated[str | None, typer.Option(help="cpu or cuda (default: a GPU if there is one)")] = None,
    picture: Annotated[Path | None, typer.Option(help="draw time and memory by length into this PNG")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="how often each layer has its turn")] = None,
    threads: Annotated[int, typer.Option(min=1, help="of the CPU")] = 2,
    tiny: Annotated[bool, typer.Option(help="toy sizes; the figures mean nothing")] = False,
) -> None:
    """Time and memory of one layer by the length of the sequence, next to the formulas."""
    torch.set_num_threads(threads)
    console = Console(width=None if sys.stdout.isatty() else 100)
    on = choose_device(device)
    here = machine.describe(on)
    print_machine(here, console)
    report = run(on, rounds, tiny, ())
    report.print(console)
    if json_file:
        json_file.write_text(json.dumps(as_json(here, [report]), indent=2) + "\n", encoding="utf-8")
    if picture:
        draw(report, picture)


if __name__ == "__main__":
    typer.run(main)
