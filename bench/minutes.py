"""python -m bench.minutes --data DIR: what `regard recipes` says of the time that trainings take.

It times real steps of every shipped recipe whose data are there and that can be trained here within a day, and prints
lines for regard/commands/minutes.toml.  On a computer without a GPU the second figure is modeled
(regard/training/scaling.py): steps on one H200, and a minute for reading and compiling.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from regard.config import load, shipped_recipes
from regard.errors import RegardError
from regard.learning.device import choose_device
from regard.models.interface import Model
from regard.runs.recipe import Recipe
from regard.training.estimate import measure
from regard.training.prepare import prepare
from regard.training.scaling import H200, Work, step_cost

DAY = 24 * 60  # minutes
FLOPS = 40e9  # a second of two cores, about; only to leave out what takes more than a day
TIMED = 5.0  # seconds
FIRST = 1.0  # minute on a GPU before the first step


def main(
    data: Annotated[Path, typer.Option(help="the folder of the data sets")] = Path("data"),
    only: Annotated[list[str] | None, typer.Option(help="recipes (default: all)")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda")] = None,
) -> None:
    """Print a line for each recipe: minutes on this device, and on a CPU also those modeled for a GPU."""
    on = choose_device(device)
    for name in only or shipped_recipes():
        settings = load(name)
        if settings.get("training", {}).get("from_run"):
            continue
        root = settings.get("data", {}).get("root", str(data)) if name == "demo" else str(data)
        recipe = Recipe.read(name, [f"data.root={root}"])
        if recipe.model_class.is_counted:
            continue
        model = recipe.sketch()
        modeled = minutes_on_h200(recipe, model) if on.type == "cpu" else None
        print(f'{name} = ["{rounded(minutes_here(recipe, model, on))}", "{rounded(modeled)}"]', flush=True)


def minutes_here(recipe: Recipe, model: Model, device: torch.device) -> float | None:
    """By timing steps; None: its data are missing, or it takes too long."""
    data, c = recipe.data, recipe.training
    flops = 3 * model.cost(recipe.task.window).forward * c.steps * c.accumulate * data.budget
    is_there = all((Path(data.root) / file).exists() for file in (*data.train, *data.valid))
    if not is_there or (device.type == "cpu" and flops / FLOPS / 60 > DAY):
        return None
    with tempfile.TemporaryDirectory() as folder:
        cached = replace(recipe, data=replace(data, cache=""))
        try:
            return measure(prepare(cached, Path(folder) / "run", device=device), device, TIMED).seconds / 60
        except RegardError as error:  # a teacher or a judge that is another run's
            typer.echo(f"{recipe.name}: {error}", err=True)
            return None


def minutes_on_h200(recipe: Recipe, model: Model) -> float | None:
    """Without validations.  None: it does not fit, or reads step by step, of which the cost model knows nothing."""
    if model.cost(recipe.task.window).is_sequential:
        return None
    c = recipe.training
    work = Work.of(model, recipe.d_model, recipe.task.window, c.accumulate * recipe.data.budget)
    cost = step_cost(work, H200)
    return FIRST + c.steps * cost.seconds / 60 if cost.memory < H200.room else None


def rounded(minutes: float | None) -> str:
    if minutes is None:
        return ""
    if minutes > 600:
        return f"~{minutes / 60:.0f} h"
    return f"~{minutes:.0f}" if minutes >= 10 else f"~{minutes:.1g}" if minutes >= 0.1 else "~0.1"


if __name__ == "__main__":
    typer.run(main)
