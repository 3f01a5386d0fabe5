"""regard train: from a recipe to a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.runs.recipe import Recipe


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="a shipped name, a TOML file or a run folder")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE", help="change one setting; repeatable")
    ] = None,
    run: Annotated[Path | None, typer.Option(help="the run folder (default: runs/RECIPE)")] = None,
    from_: Annotated[Path | None, typer.Option("--from", metavar="RUN", help="begin with this run's weights")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the run where it stopped")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")] = None,
) -> None:
    """Train a model as a recipe says; Ctrl-C saves, --resume goes on."""
    from regard.errors import ConfigError, RunError
    from regard.learning.device import choose_device
    from regard.runs.durable import only_one
    from regard.runs.recipe import Recipe
    from regard.training.prepare import prepare
    from regard.training.screen import open_screen
    from regard.training.start import start

    if resume and from_:
        raise ConfigError(f"a resumed run goes on from its own weights: leave out --resume, or --from {from_}")
    is_run = (Path(recipe) / "recipe.toml").is_file()
    folder = run or (Path(recipe) if is_run and resume else Path("runs") / Path(recipe).stem)
    if resume and not (folder / "recipe.toml").is_file():
        raise RunError(f"there is no run to resume in {folder}; without --resume it would be started")
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
    """Why a recipe cannot begin anew, and what to do; "" if it can."""
    if getattr(recipe.model, "frozen", False):
        return (
            "keeps a part of its model as another run has learnt it: give that run, --from RUN, "
            "or let all of it learn: --set model.frozen=false"
        )
    if recipe.kind == "preference":
        return "chooses between the answers of a model that can answer: give its run, --from RUN"
    if recipe.lora.rank:
        return (
            "adapts what another run has learnt: give that run, --from RUN, "
            "or let all of a new model learn: --set lora.rank=0"
        )
    return ""
