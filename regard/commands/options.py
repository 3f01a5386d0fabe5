"""Arguments and options that several commands share, and decoding settings by name."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard import config
from regard.decoding.config import SAMPLERS, DecodingConfig
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run import Run

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="a shipped name, a TOML file or a run folder")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE", help="change one setting; repeatable")
]
BeginWith = Annotated[
    Path | None,
    typer.Option("--from", metavar="RUN", help="start from this run's weights, with its model and tokenizer"),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
InputFile = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="one text per line (default: standard input)")]
InputPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE]...", help="one text per line (default: standard input); of a run that reads images, these"
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")]
Decoding = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as beam=4, sample=true, top_p=0.9"),
]
DraftFolder = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="a smaller run that proposes tokens: faster, the same answers"),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace files that exist, without asking")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object per line, with scores and notes")]


def with_draft(run: "Run", draft: Path | None, verb: str, device: str | None) -> "Run":
    """The run, with another that proposes what it writes."""
    if draft is None:
        return run
    loaded = regard.load(draft, device)
    loaded.check_can(verb)
    return run.drafted_by(loaded)


def say_accepted(run: "Run") -> None:
    """How many of the tokens that a draft proposed were written."""
    if engine := run.speculative:
        print(f"draft: {engine.acceptance:.1%} of {engine.n_proposed:,} proposed tokens accepted", file=sys.stderr)


def decoding_settings(run: "Run", overrides: list[str]) -> DecodingConfig:
    """The recipe's [decoding] with NAME=VALUE changes."""
    changes = {}
    for override in overrides:
        name, equals, value = override.removeprefix("decoding.").partition("=")
        if not equals:
            raise ConfigError(f"--set needs name=value, got {override!r}")
        changes[name] = config.parse(value)
    settings = config.build(DecodingConfig, config.as_settings(run.recipe.decoding) | changes, "decoding")
    for name in SAMPLERS:
        if name in changes and not settings.sample:
            raise ConfigError(f"{name} is for sampling, and nothing is drawn here: add --set sample=true")
    return settings
