"""regard train: from a recipe to a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import Device, Overrides, RecipeName

if TYPE_CHECKING:
    from regard.runs.recipe import Recipe


def train(
    recipe: RecipeName,
    set_: Overrides = None,
    run: Annotated[Path | None, typer.Option(help="the run folder (default: runs/RECIPE)")] = None,
    from_: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="start from this run's weights")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue the run where it stopped")] = False,
    device: Device = None,
) -> None:
    """Train a model as a recipe says; Ctrl-C saves, --resume continues."""
    from regard.errors import ConfigError, RunError
    from regard.learning.device import choose_device
    from regard.runs.durable import only_one
    from regard.runs.recipe import Recipe
    from regard.training.prepare import prepare
    from regard.training.screen import open_screen
    from regard.training.start import start

    if resume and from_:
        raise ConfigError(f"a resumed run continues from its own weights: leave out --resume, or --from {from_}")
    is_run = (Path(recipe) / "recipe.toml").is_file()
    folder = run or (Path(recipe) if is_run and resume else Path("runs") / Path(recipe).stem)
    if resume and not (folder / "recipe.toml").is_file():
        raise RunError(f"there is no run to resume in {folder}; leave out --resume to start one")
    on = choose_device(device)
    chosen = Recipe.read(str(folder.resolve()) if resume else recipe, set_ or [])
    needs = what_needs_weights(chosen)
    if needs and not (from_ or resume):
        raise ConfigError(f"{chosen.name} {needs}")
    screen = open_screen()
    screen.say(f"{'resuming' if resume else 'training'} {chosen.name} in {folder}: reading the data")
    if resume and Path(recipe).resolve() != folder.resolve():
        screen.say(f"its settings are those of {folder / 'recipe.toml'}, not of {recipe}; change them with --set")
    with only_one(folder):
        prepared = prepare(chosen, folder, resume, from_)
        start(prepared, folder, on, resume, screen)
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
