"""regard bench: side by side with the peers."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import RegardError


def bench(
    name: Annotated[str | None, typer.Argument(help="such as training or decoding; a wrong name lists them")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda (default: a GPU if there is one)")] = None,
    json: Annotated[Path | None, typer.Option(help="also write the figures to this file")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of timed rounds for each contender")] = None,
    tiny: Annotated[bool, typer.Option("--tiny", help="toy sizes, to see that everything runs")] = False,
) -> None:
    """Measure regard side by side with its peers, as ratios, and its parts side by side with each other."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "bench" / "__main__.py").exists():
        raise RegardError(
            f"the benches are not installed with the package (no {checkout / 'bench'}); "
            "clone the repository and run `make bench` there"
        )
    options = {"--device": device, "--json": json and json.resolve(), "--rounds": rounds}
    given = [str(part) for option, value in options.items() if value is not None for part in (option, value)]
    command = [sys.executable, "-m", "bench", *([name] if name else []), *given, *(["--tiny"] if tiny else [])]
    raise typer.Exit(subprocess.run(command, cwd=checkout).returncode)
