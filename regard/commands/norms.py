"""regard norms: the size of the gradient at each step of a training, as its run remembers it."""

import json
import statistics
from pathlib import Path
from typing import Annotated

import typer

from regard.commands.lines import print_table, short_names
from regard.errors import RunError


def norms(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders, finished or not")],
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="with --png: on dark paper")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with every step")] = False,
) -> None:
    """Show how large the gradient was at each step, and how often it was clipped.

    To see what clipping does, train twice: regard train RECIPE --run A, and again with --run B --set training.clip=0.
    """
    from regard.runs.history import number, read_metrics
    from regard.runs.recipe import Recipe
    from regard.viewer import charts
    from regard.viewer.style import DARK, LIGHT

    curves: dict[str, tuple[list[int], list[float], float]] = {}
    last_losses: dict[str, float | None] = {}
    for run, name in short_names(runs).items():
        rows = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
        known = {row["step"]: norm for row in rows if (norm := number(row, "grad_norm")) is not None}
        if not known:
            raise RunError(f"{run / 'metrics.jsonl'} has no gradient norms: name the folder of a run that was trained")
        curves[name] = (list(known), list(known.values()), Recipe.of_run(run).training.clip)
        last_losses[name] = number(rows[-1], "loss")
    if as_json:
        records = [
            {"run": name, "clip": clip, "steps": steps, "norms": values, "last_loss": last_losses[name]}
            for name, (steps, values, clip) in curves.items()
        ]
        print(json.dumps(records))
    else:
        columns = ("run", "clip", "steps", "median norm", "largest", "at step", "clipped", "last loss")
        table = [row_of(name, *curve, last_losses[name]) for name, curve in curves.items()]
        print_table(columns, table, "Norm of the gradient before clipping", are_numbers=True)
    if png is not None:
        charts.norms(curves, png, DARK if dark else LIGHT)
        if not as_json:
            print(f"{png}: one line a run")


def row_of(name: str, steps: list[int], values: list[float], clip: float, loss: float | None) -> list[str]:
    largest = max(values)
    clipped = f"{sum(value > clip for value in values) / len(values):.1%}" if clip else "never"
    figures = [f"{statistics.median(values):.3g}", f"{largest:.3g}", f"{steps[values.index(largest)]:,}"]
    return [name, f"{clip:g}", f"{len(steps):,}", *figures, clipped, "" if loss is None else f"{loss:.4g}"]
