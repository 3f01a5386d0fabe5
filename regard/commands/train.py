"""regard doctor, regard train: from a recipe to a run."""

import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import print_table
from regard.commands.options import Device, Overrides, RecipeName
from regard.errors import ConfigError, RunError
from regard.runs.durable import left_as_found, only_one

if TYPE_CHECKING:
    import torch

    from regard.data.report import Row
    from regard.processes import Processes
    from regard.runs.recipe import Recipe

LEARNED = 0.1  # nats a prediction of a batch that was learned by heart


def doctor(
    recipe: RecipeName,
    set_: Overrides = None,
    seconds: Annotated[float, typer.Option(help="the most time to spend on learning one batch by heart")] = 60.0,
    picture: Annotated[
        Path | None, typer.Option(help="of images: also draw some of them as augmentation changes them, PNG")
    ] = None,
    device: Device = None,
) -> None:
    """Look at the data, estimate memory and time, and learn one batch by heart; writes nothing but --picture."""
    from regard.learning.device import choose_device
    from regard.runs.card import duration
    from regard.runs.recipe import Recipe
    from regard.training.estimate import SECONDS, measure
    from regard.training.prepare import prepare
    from regard.training.start import learn_by_heart

    on = choose_device(device)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Recipe.read(recipe, [*(set_ or []), 'data.cache=""'])  # so that nothing is written elsewhere
        print(f"{chosen.name}: reading the data …", flush=True)
        prepared = prepare(chosen, Path(folder) / "doctor")
        data = prepared.task.inspect()
        if picture is not None:
            prepared.task.draw_examples(picture)
            print(f"{picture}: training images as they are, and in the first epochs")
        if prepared.recipe.model_class.is_counted:
            print("This model is counted, in one pass: there is no fit to try.")
            print_findings(data)
            return
        print("Timing a few steps …", flush=True)
        estimate = measure(prepared, on, min(SECONDS, seconds / 4))
        print(f"Learning one batch by heart, without dropout and smoothing, for at most {seconds:.0f} s …", flush=True)
        heart = learn_by_heart(prepared, on, seconds)
    takes = f"about {duration(estimate.seconds)} on this {on.type}"
    memory = f"about {estimate.memory / 2**20:,.0f} MiB"
    if heart.last < LEARNED:
        print(f"The model can learn this data: {takes}, {memory}.")
    else:
        print(
            "The batch was not learned by heart in this time: try more --seconds, a higher learning rate or a larger "
            "model; if the loss hardly fell, look for targets that have nothing to do with their inputs. "
            f"The training would take {takes}, {memory}."
        )
    n_weights = sum(p.numel() for p in prepared.model.parameters())
    steps = f"{prepared.recipe.training.steps:,} steps, {estimate.how}"
    rows = [
        ("weights", f"{n_weights:,}"),
        ("memory to train", memory),
        ("time to train", f"{takes} ({steps})"),
        ("one batch by heart", f"{heart.first:.2f} → {heart.last:.3f} nats in {heart.steps} steps"),
    ]
    print_table(("what", "how much"), rows, "The fit")
    print_findings(data)


def print_findings(rows: "list[Row]") -> None:
    """What is odd or counted; what was looked for and not found is said in one line."""
    absent = [row for row in rows if row.value == "0"]
    print_table(("part", "what", "how much", "first at"), [row for row in rows if row not in absent], "The data")
    for part in dict.fromkeys(row.part for row in absent):
        print(f"None in {part}: {', '.join(row.what for row in absent if row.part == part)}.")


def train(
    recipe: RecipeName,
    set_: Overrides = None,
    run: Annotated[  # torchrun takes --run for its own --run-path
        Path | None, typer.Option("--run", "--folder", help="the run folder (default: runs/RECIPE)")
    ] = None,
    from_: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="start from this run's weights")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue the run where it stopped")] = False,
    device: Device = None,
) -> None:
    """Train a model as a recipe says; Ctrl-C saves, --resume continues.  `torchrun -m regard train ...` uses many."""
    from regard.learning.device import choose_device
    from regard.processes import joined, local_rank, n_started
    from regard.runs.recipe import Recipe
    from regard.training.team import check_device, is_restarted, threads_of

    if resume and from_:
        raise ConfigError(f"a resumed run continues from its own weights: leave out --resume, or --from {from_}")
    is_run = (Path(recipe) / "recipe.toml").is_file()
    folder = run or (Path(recipe) if is_run and resume else Path("runs") / Path(recipe).stem)
    if resume and not (folder / "recipe.toml").is_file():
        raise RunError(f"there is no run to resume in {folder}; leave out --resume to start one")
    if is_restarted(folder):
        resume, from_ = True, None
    on = choose_device(device, local_rank())
    chosen = Recipe.read(str(folder.resolve()) if resume else recipe, set_ or [])
    chosen = replace(chosen, distribution=chosen.distribution.for_processes(n_started()))
    check_device(chosen.distribution, on)
    needs = what_needs_weights(chosen)
    if needs and not (from_ or resume):
        raise ConfigError(f"{chosen.name} {needs}")
    with joined(on, chosen.distribution.timeout) as processes, threads_of(chosen.distribution):
        train_together(chosen, recipe, folder, from_, resume, on, processes)


def train_together(
    chosen: "Recipe",
    recipe: str,
    folder: Path,
    from_: Path | None,
    resume: bool,
    on: "torch.device",
    processes: "Processes",
) -> None:
    """What each process does; one of them writes and speaks."""
    from regard.training.prepare import prepare
    from regard.training.screen import open_screen
    from regard.training.start import start
    from regard.training.team import note_job

    screen = open_screen(is_silent=not processes.is_leader)
    screen.say(f"{'resuming' if resume else 'training'} {chosen.name} in {folder}: reading the data")
    if resume and Path(recipe).resolve() != folder.resolve():
        screen.say(f"its settings are those of {folder / 'recipe.toml'}, not of {recipe}; change them with --set")
    with only_one(folder) if processes.is_leader else nullcontext():
        with processes.leader_first(), left_as_found(folder) if processes.is_leader else nullcontext():
            if processes.is_leader:
                note_job(folder)
            prepared = prepare(chosen, folder, resume, from_, processes.is_leader)
        start(prepared, folder, on, resume, screen, processes)
    for command in prepared.about.usage:
        screen.say(f"next: {command}")


def what_needs_weights(recipe: "Recipe") -> str:
    """Why a recipe cannot start from random weights, and what to do; "" if it can."""
    if recipe.model.needs_weights:
        return (
            "freezes a part of its model as another run trained it: give that run, --from RUN, "
            "or train all of it: --set model.frozen=false"
        )
    if recipe.task_class.needs_weights:
        return recipe.task_class.needs_weights
    if recipe.lora.rank:
        return "adapts a trained run: give that run, --from RUN, or train a whole new model: --set lora.rank=0"
    return ""
