"""regard norms: the size of the gradient at each step of a training, as its run remembers it."""

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import print_table, short_names
from regard.commands.options import Overwrite
from regard.commands.replacing import ask_before_replacing
from regard.errors import RunError

if TYPE_CHECKING:
    from regard.viewer.charts import NormCurve


def norms(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders, finished or not")],
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="with --png: on dark paper")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with every step")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Show how large the gradient was at each step, and how often it was clipped.

    To see what clipping does, train twice: regard train RECIPE --run A, and again with --run B --set training.clip=0.
    """
    from regard.runs.history import number, read_metrics
    from regard.runs.recipe import Recipe
    from regard.viewer import charts
    from regard.viewer.style import DARK, LIGHT

    ask_before_replacing(png, overwrite=overwrite)
    curves: dict[str, charts.NormCurve] = {}
    last_losses: dict[str, float | None] = {}
    for run, name in short_names(runs).items():
        training = Recipe.of_run(run).training
        rows = [row for row in read_metrics(run / "metrics.jsonl") if row["kind"] == "train"]
        known = {row["step"]: norm for row in rows if (norm := number(row, "grad_norm")) is not None}
        if not known:
            raise RunError(f"{run / 'metrics.jsonl'} has no gradient norms: name the folder of a run that was trained")
        n_left = max(0, training.steps - int(rows[-1]["step"]))
        curves[name] = charts.NormCurve(list(known), list(known.values()), training.clip, n_left)
        last_losses[name] = number(rows[-1], "loss")
    if as_json:
        records = [
            {"run": name, "clip": curve.clip, "steps": curve.steps, "norms": curve.norms}
            | {"steps_left": curve.n_left, "last_loss": last_losses[name]}
            for name, curve in curves.items()
        ]
        print(json.dumps(records))
    else:
        columns = ("run", "clip", "steps", "median norm", "largest", "at step", "clipped", "last loss")
        table = [row_of(name, curve, last_losses[name]) for name, curve in curves.items()]
        print_table(columns, table, "Norm of the gradient before clipping", are_numbers=True)
    if png is not None:
        charts.norms(curves, png, DARK if dark else LIGHT)
        if not as_json:
            print(f"{png}: one line a run")


def row_of(name: str, curve: "NormCurve", loss: float | None) -> list[str]:
    steps, norms, clip = curve.steps, curve.norms, curve.clip
    largest = max(norms)
    clipped = f"{sum(norm > clip for norm in norms) / len(norms):.1%}" if clip else "never"
    figures = [f"{statistics.median(norms):.3g}", f"{largest:.3g}", f"{steps[norms.index(largest)]:,}"]
    return [name, f"{clip:g}", curve.n_steps, *figures, clipped, "" if loss is None else f"{loss:.4g}"]
