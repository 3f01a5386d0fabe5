"""The model card: README.md of a run, filled in from what was done."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from regard.learning.config import TrainingConfig
from regard.runs.durable import write_file

RunEnvironment = dict[str, str | int]  # what the run stood on: device, precision, compiler, threads, versions


@dataclass(frozen=True, kw_only=True)
class About:
    """What the caller knows of the run and the loop does not."""

    title: str
    summary: str  # a sentence or two: what it learns from what
    rows: tuple[tuple[str, str], ...]  # parameters by part, data, memory: shown beforehand and on the card
    usage: tuple[str, ...]  # commands that use the run


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a training ended; also result.json."""

    steps: int
    reason: str  # "all steps done" or why not
    weights: str  # which weights the run holds, in words
    values: dict[str, float]  # their validation, empty when there was none
    best_step: int | None
    tokens: int
    seconds: float
    peak_memory: int  # bytes, of the device


def write_card(
    run: Path, about: About, result: Result, weights: str, config: TrainingConfig, environment: RunEnvironment
) -> None:
    """result.json and README.md.  `weights` is the name of the file that holds them."""
    write_file(run / "result.json", json.dumps(dataclasses.asdict(result), indent=2).encode())
    figures = [(name, f"{value:.4g}") for name, value in result.values.items()]
    trained = [
        ("steps", f"{result.steps:,} ({result.reason})"),
        ("tokens", f"{result.tokens:,}"),
        ("time", duration(result.seconds)),
        ("peak memory", f"{result.peak_memory / 2**20:,.0f} MiB"),
        *((name, str(value)) for name, value in environment.items()),
    ]
    curves = "\n\n![curves](curves.png)" if (run / "curves.png").is_file() else ""
    settings = [(f"`{name}`", f"`{value}`") for name, value in dataclasses.asdict(config).items()]
    parts = [
        f"# {about.title}",
        about.summary,
        "## Use\n\n```\n" + "\n".join(about.usage) + "\n```",
        f"## Weights\n\n`{weights}`, which `regard.load` takes, holds: {result.weights}.",
        "## Validation\n\n" + (table(("metric", "value"), figures) if figures else "None was asked for."),
        "## Model and data\n\n" + table(("what", "how much"), list(about.rows)),
        "## Training\n\n" + table(("what", "how much"), trained) + curves,
        "## Settings\n\n" + table(("setting", "value"), settings),
    ]
    write_file(run / "README.md", ("\n\n".join(parts) + "\n").encode())


def table(heads: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    lines = [heads, ("---", "---"), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
    )


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, float(seconds > 0)):.0f} s"  # what takes time never takes 0 s
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{days:.0f} days" if days < 1000 else f"{days / 365.25:,.0f} years"
