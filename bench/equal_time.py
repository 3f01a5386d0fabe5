"""python -m bench.equal_time RECIPE --seconds 30: what each optimizer reaches in the same time, with a whole schedule.

A step of each is timed first; a training then has as many steps as fit, and one validation, at its end.
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import RegardError
from regard.learning.device import choose_device
from regard.runs.recipe import Recipe
from regard.training.call import train_recipe
from regard.training.environment import reproducible
from regard.training.estimate import time_step
from regard.training.prepare import prepare

TIMED = {"cuda": 15.0, "cpu": 3.0}  # seconds: on a GPU the first steps compile


def main(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE")],
    seconds: Annotated[float, typer.Option(min=0.1, help="of the steps of each training")] = 30.0,
    optimizer: Annotated[list[str] | None, typer.Option(help="default: adamw and muon")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="default: 0")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
) -> None:
    """Train with each optimizer for the same time."""
    found: list[dict[str, object]] = []
    try:
        for name in optimizer or ["adamw", "muon"]:
            for number in seed or [0]:
                changes = [*(set_ or []), f"training.optimizer={name}", f"training.seed={number}"]
                found.append({"optimizer": name, "seed": number, **train(recipe, changes, seconds, device)})
                print("  ".join(f"{key} {value}" for key, value in found[-1].items()), flush=True)
                if json_file:
                    json_file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None


def train(recipe: str, changes: list[str], seconds: float, device: str | None) -> dict[str, object]:
    on = choose_device(device)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Recipe.read(recipe, changes)
        with reproducible(on):
            step = time_step(prepare(chosen, Path(folder) / "timed", resume=False), on, TIMED[on.type])
        steps = max(1, round(seconds / step))
        once = [f"training.{name}={steps}" for name in ("steps", "validate_every", "save_every")]
        began = time.monotonic()
        run = Path(folder) / "run"
        train_recipe(Recipe.read(recipe, [*changes, *once]), run, device, weights_from=None, resume=False, quiet=True)
        result = json.loads((run / "result.json").read_text(encoding="utf-8"))
        return {
            "step_ms": round(1000 * step, 2),
            "steps": steps,
            "seconds": round(result["seconds"], 1),
            "whole_seconds": round(time.monotonic() - began, 1),  # with compiling
            **{name: round(value, 4) for name, value in result["values"].items()},
        }


if __name__ == "__main__":
    typer.run(main)
