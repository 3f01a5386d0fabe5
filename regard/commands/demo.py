"""regard demo: the example sentences of the lecture, trained on this machine and looked into."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.options import Device
from regard.errors import RunError
from regard.runs.durable import only_one, write_file

if TYPE_CHECKING:
    from regard.commands.tour import Printer
    from regard.data.corpora.grammar import PairCorpus

MARK = "demo.json"  # in every folder that this command made: only such a folder is ever removed


def demo(
    run: Annotated[Path, typer.Option(help="the run folder")] = Path("runs/demo"),
    device: Device = None,
    steps: Annotated[int | None, typer.Option(min=1, help="training steps (default: the recipe's)")] = None,
    again: Annotated[bool, typer.Option("--again", help="remove the existing demo and start over")] = False,
) -> None:
    """Train a small translator on this machine and look at its attention (under three minutes on two cores)."""
    from regard.commands.tour import Printer, Tour
    from regard.data.corpora.grammar import generate
    from regard.learning.device import choose_device
    from regard.runs.recipe import Recipe

    printer = Printer()
    choose_device(device)  # a wrong name is reported before anything is written
    make_ready(run, again)
    corpus = generate()
    resume = (run / "recipe.toml").is_file()
    planned = Recipe.of_run(run).training.steps if resume else steps
    if steps not in (None, planned):
        raise RunError(f"the demo in {run} has {planned:,} steps; --again starts over with {steps:,}")
    if (run / "model.safetensors").is_file():
        printer.line(f"{run} holds a finished demo: here it is again. To start over: regard demo --again")
    else:
        train(corpus, run, device, steps, resume, printer)
    Tour(regard.load(run, device), corpus, printer).give()


def make_ready(run: Path, again: bool) -> None:
    """A folder for the demo, empty or with an earlier demo in it."""
    is_demo = (run / MARK).is_file()
    if run.exists() and not is_demo and (not run.is_dir() or any(run.iterdir())):
        raise RunError(
            f"{run} holds something that `regard demo` did not make, and is left as it is; "
            "name another folder: regard demo --run FOLDER"
        )
    if again and is_demo:
        shutil.rmtree(run)
    run.mkdir(parents=True, exist_ok=True)
    write_file(run / MARK, json.dumps({"made by": "regard demo"}).encode())


def train(
    corpus: "PairCorpus", run: Path, device: str | None, steps: int | None, resume: bool, printer: "Printer"
) -> None:
    """Write the corpus into the run's folder and train on it, or resume a training that was stopped."""
    from regard.learning.device import choose_device
    from regard.runs.recipe import Recipe
    from regard.training.prepare import prepare
    from regard.training.screen import open_screen
    from regard.training.start import start

    overrides = [f"data.root={json.dumps(str(run / 'data'))}"]
    if not resume and steps is not None:
        overrides.append(f"training.steps={steps}")
    printer.title("Training, from where it stopped" if resume else "Training")
    printer.paragraph(
        f"A grammar makes {len(corpus.train):,} English sentences with their French translations to train on, and "
        f"{len(corpus.held_out):,} that are held out: who does what to what, and why, in a held-out sentence occurs "
        "in no training sentence."
    )
    with only_one(run):
        corpus.write(run / "data")
        prepared = prepare(Recipe.read(str(run.resolve()) if resume else "demo", overrides), run, resume)
        start(prepared, run, choose_device(device), resume, open_screen(printer.console))
