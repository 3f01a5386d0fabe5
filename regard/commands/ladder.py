"""regard ladder: n-gram to Transformer on the same data, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.choose import choose
from regard.commands.options import Device, Overrides
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.ladder.standings import RungRow


def ladder(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="more files of --data")] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="a text, or train, valid and test; for translation source and target lines"),
    ] = None,
    task: Annotated[str, typer.Option(help="language or translation")] = "language",
    steps: Annotated[int | None, typer.Option(min=1, help="the budget in steps, and so in tokens")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="or a target in time, for each rung")] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1, help="end each rung after this many validations without a new best, or at the end of the budget"
        ),
    ] = None,
    rungs: Annotated[str | None, typer.Option(metavar="NAME,NAME", help="only these (default: all)")] = None,
    out: Annotated[Path | None, typer.Option(help="the folder (default: runs/ladder, runs/ladder-translation)")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="draw the pictures on dark paper")] = False,
    set_: Overrides = None,
    device: Device = None,
) -> None:
    """Train n-grams, recurrent nets, convolutions, attention and the Transformer on one text, and compare them.

    Each rung is a run below the folder.  Finished rungs are kept; Ctrl-C stops, and the same command continues.
    Without --data, the text is the demo's.  --set changes every rung that has the setting, or one rung:
    --set lstm.model.d_hidden=64.
    """
    from rich.console import Console

    from regard.ladder.climb import Budget, check_budget, climb, write_recipes
    from regard.ladder.rungs import LADDERS
    from regard.ladder.standings import compare, keep
    from regard.learning.device import choose_device
    from regard.runs.durable import only_one
    from regard.runs.recipe import Recipe
    from regard.training.screen import open_screen
    from regard.training.signals import Stopped
    from regard.viewer.style import DARK, LIGHT

    if minutes is not None and steps is not None:
        raise ConfigError("the budget is --minutes or --steps, not both")
    if patience is not None and steps is None and minutes is None:
        raise ConfigError("--patience also needs --steps or --minutes: how much a rung takes at most")
    chosen = choose(LADDERS, task, "task of a ladder")
    names = list(chosen.rungs) if rungs is None else [name.strip() for name in rungs.split(",")]
    for name in names:
        choose(chosen.rungs, name, "rung")
    overrides = set_ or []
    if any(override.startswith("training.steps=") for override in overrides):
        raise ConfigError("the steps of a ladder are its budget: use --steps N instead of --set training.steps=N")
    if minutes is not None:
        budget = Budget(seconds=60 * minutes, patience=patience)
    else:
        budget = Budget(steps=steps or Recipe.read(chosen.recipe).training.steps, patience=patience)
    on, folder, console = choose_device(device), out or Path("runs") / chosen.recipe, Console()
    with only_one(folder, waits=True):  # other rungs may be trained at the same time
        check_budget(folder, budget.words())
        table = chosen.data_table([*(data or []), *(files or [])], folder / "data")
        cache = str((folder / "cache").resolve())
        recipes = write_recipes(chosen, names, {"cache": cache, **table}, budget, overrides, folder / "recipes")
    rows: list[RungRow] = []
    try:
        for row in climb(chosen, recipes, folder, budget, on, lambda: open_screen(console)):
            rows.append(row)
    except Stopped as stop:
        message = f"{stop}; or, with the whole ladder, by the same command again"
        raise Stopped(stop.number, message, stop.is_between_steps) from None
    finally:  # also after Ctrl-C: what is finished is shown
        if rows:
            with only_one(folder, waits=True):
                keep(rows, chosen, folder, budget.words(), str(on), DARK if dark else LIGHT)
            console.print(compare(rows, chosen, budget.words()))
            print(f"{folder}: ladder.json, ladder.md and pictures; every rung is a run, such as {rows[-1].run}")
