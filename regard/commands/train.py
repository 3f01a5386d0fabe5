"""regard doctor, regard train: from a recipe to a run."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import print_table
from regard.commands.options import BeginWith, Device, Overrides, RecipeName
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.data.report import Row

LEARNED = 0.1  # nats a prediction of a batch that was learned by heart


def doctor(
    recipe: RecipeName,
    set_: Overrides = None,
    from_: BeginWith = None,
    seconds: Annotated[float, typer.Option(help="the most time to spend on learning one batch by heart")] = 60.0,
    picture: Annotated[
        Path | None, typer.Option(help="of images: also draw some of them as augmentation changes them, PNG")
    ] = None,
    device: Device = None,
) -> None:
    """Look at the data, estimate memory and time, and learn one batch by heart; writes nothing but --picture."""
    from regard.learning.device import choose_device
    from regard.runs.card import duration
    from regard.runs.inheriting import read_recipe
    from regard.training.estimate import SECONDS, measure
    from regard.training.prepare import prepare
    from regard.training.start import learn_by_heart

    on = choose_device(device)
    with tempfile.TemporaryDirectory() as folder:
        chosen = read_recipe(recipe, [*(set_ or []), 'data.cache=""'], from_)  # so that nothing is written elsewhere
        print(f"{chosen.name}: reading the data …", flush=True)
        prepared = prepare(chosen, Path(folder) / "doctor", weights_from=from_, device=on)
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
    unit = prepared.task.loss_unit
    steps = f"{prepared.recipe.training.steps:,} steps, {estimate.how}"
    rows = [
        ("weights", f"{n_weights:,}"),
        ("memory to train", memory),
        ("time to train", f"{takes} ({steps})"),
        ("one batch by heart", f"{heart.first:.2f} → {heart.last:.3f} {unit} in {heart.steps} steps"),
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
    from_: BeginWith = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue the run where it stopped")] = False,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="copy the data into the run, which can then be evaluated anywhere")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="take fewer steps than the recipe says, if they would take longer")
    ] = None,
    device: Device = None,
) -> None:
    """Train a model as a recipe says; Ctrl-C saves, --resume continues.  `torchrun -m regard train ...` uses many."""
    from regard.runs.inheriting import read_recipe
    from regard.training.call import folder_of, train_recipe
    from regard.training.team import is_restarted

    if resume and from_:
        raise ConfigError(f"a resumed run continues from its own weights: leave out --resume, or --from {from_}")
    folder = folder_of(recipe, run, resume)
    if is_restarted(folder):
        resume, from_ = True, None
    chosen = read_recipe(str(folder.resolve()) if resume else recipe, set_ or [], from_)
    note = ""
    if resume and Path(recipe).resolve() != folder.resolve():
        note = f"its settings are those of {folder / 'recipe.toml'}, not of {recipe}; change them with --set"
    prepared, screen = train_recipe(
        chosen, folder, device, from_, resume, note=note, keeps_data=keep_data, minutes=minutes
    )
    for command in prepared.about.usage:
        screen.say(f"next: {command}")
