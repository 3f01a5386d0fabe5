"""regard reach: how far back gradients reach in trained language models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import Device

if TYPE_CHECKING:
    from regard.tasks.language.use import Reached


def reach(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="runs of language models")],
    text: Annotated[list[Path] | None, typer.Option(help="a text to measure on (default: the recipe's)")] = None,
    distance: Annotated[int, typer.Option(min=1, help="how many tokens back")] = 100,
    passages: Annotated[int, typer.Option(min=1, help="number of passages to average over")] = 64,
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with every distance")] = False,
    device: Device = None,
) -> None:
    """Measure how much the loss at the end of a passage depends on each state before it: |∂L/∂h| by distance."""
    from regard.commands.tables import print_table
    from regard.runs.run import load
    from regard.viewer import charts

    short = {run: run.name for run in runs}
    names = short if len(set(short.values())) == len(runs) else {run: str(run) for run in runs}
    files = [str(path) for path in text or ()]
    measured = {names[run]: load(run, device).reach(files, distance, passages) for run in runs}
    if as_json:
        records = [
            {"run": name, "passages": reached.n_passages, "faded": reached.faded, "norms": reached.norms.tolist()}
            for name, reached in measured.items()
        ]
        print(json.dumps(records, indent=2))
    else:
        title = "|∂L/∂h| at a distance, as a share of that at distance 0"
        print_table(("distance", *measured), shares(list(measured.values())), title, are_numbers=True)
    if png is not None:
        charts.reach({name: reached.shares for name, reached in measured.items()}, png)
        if not as_json:
            print(f"{png}: one line a run")


def shares(measured: "list[Reached]") -> list[list[str]]:
    """Shares of distance 0 at distances 1, 2, 4, 8 ... and the last."""
    from regard.tasks.language.use import FADED

    longest = len(measured[0].norms) - 1
    distances = sorted({2**k for k in range(longest.bit_length())} | {longest})
    rows = [[str(distance), *(f"{reached.shares[distance]:.2g}" for reached in measured)] for distance in distances]
    faded = ["not here" if reached.faded is None else str(reached.faded) for reached in measured]
    return [*rows, [], [f"below {FADED:.0%} from", *faded]]
