"""python -m bench.equal_time RECIPE... --seconds 30: what each reaches in the same time, with a whole schedule.

All are timed first, one after the other; what runs beside the trainings then changes no figure.  Each is trained for as
many steps as fit, and validated once, at its end.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench.timing import say
from regard.choose import choose
from regard.errors import RegardError
from regard.learning.device import choose_device
from regard.runs.history import METRICS, read_metrics
from regard.runs.recipe import Recipe
from regard.training.call import train_recipe
from regard.training.environment import reproducible
from regard.training.estimate import time_step
from regard.training.prepare import prepare
from regard.viewer.charts import Panel, bars

TIMED = 15.0  # seconds: on a GPU the first steps compile, and a memory has to fill up


@dataclass(frozen=True)
class Contender:
    recipe: str
    optimizer: str | None  # in place of the recipe's own
    seed: int
    changes: tuple[str, ...]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.recipe, self.optimizer, f"seed {self.seed}" if self.seed else "")))

    @property
    def folder(self) -> str:
        return "-".join(filter(None, (Path(self.recipe).stem, self.optimizer, str(self.seed) if self.seed else "")))

    def read(self, *changes: str) -> Recipe:
        optimizer = [] if self.optimizer is None else [f"training.optimizer={self.optimizer}"]
        return Recipe.read(self.recipe, [*self.changes, *optimizer, f"training.seed={self.seed}", *changes])


@dataclass(frozen=True)
class Outcome:
    name: str
    step_ms: float
    steps: int
    tokens: int  # trained on
    figures: dict[str, float]  # of validation


def main(
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE...")],
    seconds: Annotated[float, typer.Option(min=0.1, help="of the steps of each training")] = 30.0,
    optimizer: Annotated[list[str] | None, typer.Option(help="try these in place of the recipe's own")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="default: 0")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE", help="of all recipes")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
    picture: Annotated[Path | None, typer.Option(help="draw a figure into this PNG")] = None,
    figure: Annotated[str, typer.Option(help="of validation, which the picture shows")] = "loss",
    keep: Annotated[
        Path | None, typer.Option(help="a new folder for the runs, to evaluate them on their tests")
    ] = None,
) -> None:
    """Train each recipe, with each optimizer and seed, for the same time."""
    contenders = [
        Contender(recipe, name, number, tuple(set_ or ()))
        for recipe, name, number in product(recipes, optimizer or [None], seed or [0])
    ]
    outcomes: list[Outcome] = []
    if keep is not None and keep.exists():
        raise typer.BadParameter(f"{keep} is there already: choose another folder for the runs")
    try:
        on = choose_device(device)
        taken = [seconds_of_step(contender, on) for contender in contenders]
        for contender, step in zip(contenders, taken, strict=True):
            outcomes.append(train(contender, step, max(1, round(seconds / step)), on, keep))
            print(line(outcomes[-1]), flush=True)
            if picture:
                choose(outcomes[-1].figures, figure, f"figure of {contender.name}")
            if json_file:
                json_file.write_text(
                    json.dumps([asdict(outcome) for outcome in outcomes], indent=2) + "\n", encoding="utf-8"
                )
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None
    if picture:
        draw(outcomes, figure, f"Trained for {seconds:g} seconds each, on {on.type}", picture)


def seconds_of_step(contender: Contender, device: torch.device) -> float:
    with tempfile.TemporaryDirectory() as folder, reproducible(device):
        step = time_step(prepare(contender.read(), Path(folder), resume=False), device, TIMED)
    say(f"{contender.name}: {1000 * step:.1f} ms a step")
    return step


def train(contender: Contender, step: float, steps: int, device: torch.device, keep: Path | None) -> Outcome:
    recipe = contender.read(*(f"training.{name}={steps}" for name in ("steps", "validate_every", "save_every")))
    with tempfile.TemporaryDirectory() as folder:
        run = (keep or Path(folder)) / contender.folder
        train_recipe(recipe, run, str(device), weights_from=None, resume=False, quiet=True)
        figures = json.loads((run / "result.json").read_text(encoding="utf-8"))["values"]
        tokens = sum(row["n_tokens"] for row in read_metrics(run / METRICS) if row["kind"] == "train")
    return Outcome(contender.name, 1000 * step, steps, tokens, figures)


def line(outcome: Outcome) -> str:
    figures = "  ".join(f"{name} {value:.4f}" for name, value in outcome.figures.items())
    read = f"{outcome.steps:,} steps of {outcome.step_ms:.1f} ms  {outcome.tokens / 1e6:.2f} million tokens"
    return f"{outcome.name}  {read}  {figures}"


def draw(outcomes: list[Outcome], figure: str, title: str, path: Path) -> None:
    """A bar for each, and beside it what it read."""
    panels = [
        Panel(figure.replace("_", " "), [outcome.figures[figure] for outcome in outcomes]),
        Panel("million tokens", [outcome.tokens / 1e6 for outcome in outcomes]),
        Panel("ms a step", [outcome.step_ms for outcome in outcomes]),
    ]
    bars([outcome.name for outcome in outcomes], panels, title, path)


if __name__ == "__main__":
    typer.run(main)
