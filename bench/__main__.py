"""python -m bench [NAME]: run one bench or all, print tables, and write JSON on request."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from bench import (
    additive,
    decoding,
    filing,
    finetuning,
    generating,
    gpt,
    growth,
    growth_data,
    layers,
    long,
    machine,
    many_gpus,
    ngrams,
    paths,
    recurrent,
    scaling,
    series,
    serving,
    smollm,
    start,
    tokenising,
    training,
    vision,
)
from bench.report import Report, as_json, print_machine
from bench.timing import say
from regard.choose import choose
from regard.errors import RegardError
from regard.learning.device import choose_device

# What runs with (device, rounds or None, tiny, names to leave out).
BENCHES: dict[str, Callable[[torch.device, int | None, bool, tuple[str, ...]], Report]] = {
    "start": start.run,
    "tokenising": tokenising.run,
    "growth-data": growth_data.run,
    "training": training.run,
    "gpt": gpt.run,
    "growth": growth.run,
    "vision": vision.run,
    "finetuning": finetuning.run,
    "decoding": decoding.run,
    "generating": generating.run,
    "filing": filing.run,
    "smollm": smollm.run,
    "paths": paths.run,
    "layers": layers.run,
    "ngrams": ngrams.run,
    "additive": additive.run,
    "long": long.run,
    "recurrent": recurrent.run,
    "series": series.run,
    "serving": serving.run,
    "scaling": scaling.run,
}
GPU_ONLY, CPU_ONLY = ("paths", "scaling"), ("filing", "smollm")
PICTURES: dict[str, Callable[[Any, Path], None]] = {
    "growth": growth.draw,
    "growth-data": growth_data.draw,
    "layers": layers.draw,
    "long": long.draw,
    "serving": serving.draw,
    "scaling": many_gpus.draw,
}  # of their reports


def main(
    name: Annotated[str | None, typer.Argument(help=f"one of {', '.join(BENCHES)} (default: all)")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda (default: a GPU if there is one)")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
    picture: Annotated[Path | None, typer.Option(help=f"draw one of {', '.join(PICTURES)} into this PNG")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="how often each contender has its turn")] = None,
    threads: Annotated[int, typer.Option(min=1, help="of the CPU, for every contender")] = 2,
    tiny: Annotated[
        bool, typer.Option(help="toy sizes: checks that everything runs; the figures mean nothing")
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(help="what to leave out: a contender such as 'transformers static', or an order of batches"),
    ] = None,
) -> None:
    """Measure regard side by side with its peers."""
    torch.set_num_threads(threads)
    console = Console(width=None if sys.stdout.isatty() else 100)  # room for the tables in a file, too
    try:
        on = choose_device(device)
        others = CPU_ONLY if on.type == "cuda" else GPU_ONLY
        chosen = [choice for choice in BENCHES if choice not in others] if name is None else [name]
        benches = [choose(BENCHES, choice, "bench") for choice in chosen]
        draw = None if picture is None else choose(PICTURES, name or "", "bench with a picture")
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None
    here = machine.describe(on)
    print_machine(here, console)
    reports = []
    for number, (choice, run) in enumerate(zip(chosen, benches, strict=True), start=1):
        say(f"bench {number} of {len(benches)}: {choice}")
        report = run(on, rounds, tiny, tuple(skip or ()))
        report.print(console)
        reports.append(report)
        if draw is not None and picture is not None:
            draw(report, picture)
        if json_file:  # after each, so that what is measured is kept
            json_file.write_text(json.dumps(as_json(here, reports), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
