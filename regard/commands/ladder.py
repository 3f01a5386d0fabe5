"""regard ladder: n-gram to Transformer on the same data, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from regard.ladder.climb import RungRow
    from regard.ladder.rungs import Ladder


def ladder(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="more files of --data")] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="a text, or three: train, valid, test; for translation the source and the target lines "
            "(default: the demo's sentences)",
        ),
    ] = None,
    task: Annotated[str, typer.Option(help="language or translation")] = "language",
    steps: Annotated[int | None, typer.Option(min=1, help="the budget in steps, and so in tokens")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="or the budget in time, for each rung")] = None,
    rungs: Annotated[str | None, typer.Option(metavar="NAME,NAME", help="only these (default: all)")] = None,
    out: Annotated[Path | None, typer.Option(help="the folder (default: runs/ladder, runs/ladder-translation)")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TABLE.NAME=VALUE",
            help="change a setting of every rung that has it, or of one: lstm.model.d_hidden=64",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")] = None,
) -> None:
    """Train n-grams, recurrent nets, convolutions, attention and the Transformer on one text, and compare them.

    Each rung is a run below the folder.  What is finished there stays; Ctrl-C stops, the same command goes on.
    """
    from rich.console import Console

    from regard.choose import choose
    from regard.ladder.budget import Budget
    from regard.ladder.climb import climb, write_recipes
    from regard.ladder.data import TABLES
    from regard.ladder.rungs import LADDERS
    from regard.learning.device import choose_device
    from regard.runs.recipe import Recipe
    from regard.training.screen import open_screen
    from regard.training.signals import Stopped

    if steps is not None and minutes is not None:
        raise ConfigError("the budget is --steps or --minutes, not both")
    chosen = choose(LADDERS, task, "task of a ladder")
    names = list(chosen.rungs) if rungs is None else [name.strip() for name in rungs.split(",")]
    for name in names:
        choose(chosen.rungs, name, "rung")
    if any(one.startswith("training.steps=") for one in set_ or []):
        raise ConfigError("the steps of a ladder are its budget: say --steps N in place of --set training.steps=N")
    if minutes is not None:
        budget = Budget(seconds=60 * minutes)
    else:
        budget = Budget(steps=steps or Recipe.read(chosen.recipe).training.steps)
    on, folder, console = choose_device(device), out or Path("runs") / chosen.recipe, Console()
    check_budget(folder, budget.words())
    table = {"cache": str((folder / "cache").resolve())} | TABLES[task](
        [*(data or []), *(files or [])], folder / "data"
    )
    recipes = write_recipes(chosen, names, table, budget, set_ or [], folder / "recipes")
    rows: list[RungRow] = []
    try:
        for row in climb(chosen, recipes, folder, budget, on, lambda: open_screen(console)):
            rows.append(row)
    except Stopped as stop:
        message = f"{stop}; or, with the whole ladder, by the same command again"
        raise Stopped(stop.number, message, stop.is_between_steps) from None
    finally:  # also after Ctrl-C: what is finished is shown
        if rows:
            keep(rows, chosen, folder, budget.words(), str(on))
            console.print(compare(rows, chosen, budget.words()))
            print(f"{folder / 'ladder.json'} and {folder / 'ladder.png'}; every rung is a run, such as {rows[-1].run}")


def check_budget(folder: Path, budget: str) -> None:
    """Rungs of one ladder have one budget; it is written down before the first of them begins."""
    import json

    from regard.errors import RunError
    from regard.runs.durable import write_file

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "budget.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else budget
    if before != budget:
        raise RunError(
            f"{folder} is a ladder of {before}, now it is {budget}; nothing was changed. "
            "Ask for the same, or choose another folder with --out"
        )
    write_file(path, json.dumps(budget).encode())


def keep(rows: "list[RungRow]", chosen: "Ladder", folder: Path, budget: str, device: str) -> None:
    """ladder.json and ladder.png."""
    import json
    from dataclasses import asdict

    from regard.runs.durable import write_file
    from regard.viewer.charts import Panel, bars

    found = [{**asdict(row), "tokens_per_second": row.tokens_per_second} for row in rows]
    report = {"budget": budget, "device": device, "rungs": found}
    write_file(folder / "ladder.json", json.dumps(report, indent=2, ensure_ascii=False).encode())
    panels = [Panel(title, [row.figures[name] for row in rows]) for name, title in chosen.figures.items()]
    panels += [
        Panel("seconds", [row.seconds for row in rows], logarithmic=True),
        Panel("weights or counts", [float(row.parameters or row.counts) for row in rows], logarithmic=True),
        Panel("tokens per second", [row.tokens_per_second for row in rows], logarithmic=True),
    ]
    bars([row.title for row in rows], panels, f"The ladder, {budget}, on {rows[0].of}", folder / "ladder.png")


def compare(rows: "list[RungRow]", chosen: "Ladder", budget: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    title = Text(f"The ladder, {budget}, measured on {rows[0].of}")
    caption = "* counts" if any(row.counts for row in rows) else None
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rung", no_wrap=True)
    for head in (*chosen.figures.values(), "seconds", "tokens", "tokens/s", "weights"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        size = f"{row.counts:,}*" if row.counts else f"{row.parameters:,}"
        figures = [f"{row.figures[name]:.4g}" for name in chosen.figures]
        time = f"{row.seconds:,.1f}"
        table.add_row(row.title, *figures, time, f"{row.tokens:,}", f"{row.tokens_per_second:,.0f}", size)
    return table
