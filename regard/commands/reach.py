"""regard reach: how far back gradients reach in trained language models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from regard.tasks.language.reach import Reach


def reach(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="runs of language models")],
    text: Annotated[
        list[Path] | None, typer.Option(help="a text to measure on (default: the recipe's test or validation text)")
    ] = None,
    distance: Annotated[int, typer.Option(min=1, help="how many tokens back")] = 100,
    passages: Annotated[int, typer.Option(min=1, help="the mean is over so many passages of the text")] = 64,
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for machines, every distance")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """Measure how much the loss at the end of a passage depends on each state before it: |∂L/∂h| by distance."""
    from rich.console import Console

    from regard.runs.run import load

    short = {run: run.name for run in runs}
    names = short if len(set(short.values())) == len(runs) else {run: str(run) for run in runs}
    found = {names[run]: load(run, device).reach(text or (), distance, passages) for run in runs}
    if as_json:
        rows = [
            {"run": name, "passages": one.n_passages, "faded": one.faded, "norms": one.norms.tolist()}
            for name, one in found.items()
        ]
        print(json.dumps(rows, indent=2))
    else:
        Console().print(table(found))
    if png is not None:
        from regard.viewer import charts

        charts.reach({name: one.shares for name, one in found.items()}, png)
        if not as_json:
            print(f"{png}: one line a run")


def table(found: "dict[str, Reach]") -> "Table":
    """Shares of distance 0 at distances 1, 2, 4, 8 ... and the last."""
    from rich.table import Table
    from rich.text import Text

    from regard.tasks.language.reach import FADED

    names = list(found)
    longest = len(found[names[0]].norms) - 1
    title = "|∂L/∂h| at a distance, as a share of that at distance 0"
    made = Table("distance", title=title)
    for name in names:
        made.add_column(Text(name), justify="right")
    for distance in sorted({2**k for k in range(longest.bit_length())} | {longest}):
        made.add_row(str(distance), *(f"{found[name].shares[distance]:.2g}" for name in names))
    made.add_section()
    fades = [found[name].faded for name in names]
    made.add_row(f"below {FADED:.0%} from", *("not here" if fade is None else str(fade) for fade in fades))
    return made
