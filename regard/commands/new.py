"""regard new: from files of one's own to a recipe that is sized to them and to this computer."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import print_table
from regard.commands.options import Device
from regard.config import to_toml
from regard.data.files.clues import WORDS_OF_PARTS, name_words
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.training.proposal import Proposal

DataFiles = Annotated[list[Path], typer.Argument(help="the data: texts, tables, folders of images", show_default=False)]


def new(
    files: DataFiles,
    task: Annotated[str | None, typer.Option(help="what to learn, where the files leave it open")] = None,
    minutes: Annotated[float, typer.Option(help="how long the training may take on this computer")] = 20.0,
    from_: Annotated[
        Path | None, typer.Option("--from", metavar="RUN", help="train this run's model further, on these data")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="the recipe to write (default: named after the data)")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the recipe, if it exists")] = False,
    device: Device = None,
) -> None:
    """Write a recipe for your own files, sized to them and to this computer."""
    from regard.learning.device import choose_device
    from regard.runs.card import duration
    from regard.training.proposal import propose

    if minutes <= 0:
        raise ConfigError(f"--minutes must be above 0, got {minutes:g}")
    path = output or Path(f"{named_after(files)}.toml")
    if path.exists() and not overwrite:
        raise ConfigError(
            f"{path} exists, and nothing was changed; give another name with --output, or replace it with --overwrite"
        )
    on = choose_device(device)
    proposal = propose(files, task, minutes, on, from_, lambda line: print(line, flush=True))
    begins = "" if from_ is None else f" --from {shlex.quote(str(from_))}"
    expected = (
        f"about {duration(proposal.estimate.seconds)} and {proposal.estimate.memory / 2**20:,.0f} MiB on this {on.type}"
    )
    heading = [
        f"Made by `regard new`: {proposal.why}.",
        f"Expected: {expected}; {proposal.estimate.how}.",
        f"Train it: regard train {path}{begins}",
    ]
    path.write_text(as_recipe(proposal, heading), encoding="utf-8")
    print_table(("what", "assumed"), [*proposal.assumed, ("expected", expected)], str(path))
    print(f"next: regard train {path}{begins}")
    for command in proposal.usage:
        print(f"then: {command.replace('RUN', f'runs/{path.stem}')}")


def named_after(files: list[Path]) -> str:
    """The name of a single file, less words such as "train"; of several, that of their folder."""
    first = files[0].absolute()
    if len(files) > 1 and first.parent.name:
        return first.parent.name
    parts = {word for words in WORDS_OF_PARTS.values() for word in words}
    words = [word for word in name_words(first.with_suffix("")) if word not in parts]
    return "-".join(words) or first.parent.name or "mine"


def as_recipe(proposal: "Proposal", heading: list[str]) -> str:
    lines = [f"# {line}" for line in heading]
    for table, settings in proposal.tables.items():
        lines += ["", f"[{table}]"]
        for name, value in settings.items():
            remark = proposal.remarks.get(f"{table}.{name}", "")
            lines.append(f"{name} = {to_toml(value)}" + (f"  # {remark}" if remark else ""))
    return "\n".join(lines) + "\n"
