"""`regard.train`: from a recipe to a finished run in one call, for Python and for the command line."""

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard import config
from regard.errors import ConfigError, RunError
from regard.learning.device import choose_device
from regard.processes import joined, local_rank, n_started
from regard.runs.durable import left_as_found, only_one
from regard.runs.inheriting import inherit
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.training.keeping import copy_data
from regard.training.prepare import Prepared, prepare, write_recipe
from regard.training.screen import Screen, open_screen
from regard.training.shortening import shorten
from regard.training.start import start
from regard.training.team import check_device, note_job, threads_of

GivenTables = Mapping[str, Mapping[str, object]]  # of a recipe: {"training": {"steps": 100}}
NO_CHANGES: Mapping[str, object] = MappingProxyType({})


def train(
    recipe: str | Path | GivenTables,
    run: str | Path | None = None,
    *,
    settings: Mapping[str, object] = NO_CHANGES,
    weights_from: str | Path | None = None,
    resume: bool = False,
    keep_data: bool = False,
    device: str | None = None,
    minutes: float | None = None,
    quiet: bool = False,
) -> Run:
    """Train a model and give the run, ready to be used.

    recipe:        the name of a shipped recipe, a TOML file, a run folder, or the tables themselves, as a dict
    run:           the folder of the run; by default runs/ and the name of the recipe, which a dict does not have
    settings:      changes of single settings, such as {"training.steps": 100}
    weights_from:  a run whose weights and tokenizer are the start
    resume:        go on where the run in this folder stopped
    keep_data:     copy the data into the run, so that a copy of it elsewhere can be evaluated and resumed
    device:        "cpu", "cuda" or "cuda:N"; by default a GPU if there is one
    minutes:       take fewer steps than the recipe says, if they would take longer
    quiet:         show nothing
    """
    start_run = None if weights_from is None else Path(weights_from)
    named = isinstance(recipe, str | Path)
    folder = folder_of(str(recipe) if named else None, None if run is None else Path(run), resume)
    chosen = changed_recipe(str(folder.resolve()) if resume else recipe, folder.name, settings, start_run)
    train_recipe(chosen, folder, device, start_run, resume, quiet, keeps_data=keep_data, minutes=minutes)
    return load(folder, device)


def folder_of(recipe: str | None, run: Path | None, resume: bool) -> Path:
    """Where the run is or will be; a recipe without a name says nothing about it."""
    if run is None and recipe is None:
        raise ConfigError("a recipe given as a dict has no name: say where its run goes, run=FOLDER")
    is_run = recipe is not None and (Path(recipe) / "recipe.toml").is_file()
    folder = run or (Path(str(recipe)) if is_run and resume else Path("runs") / Path(str(recipe)).stem)
    if resume and not (folder / "recipe.toml").is_file():
        raise RunError(f"there is no run to resume in {folder}; leave out --resume to start one")
    return folder


def changed_recipe(
    recipe: str | Path | GivenTables, name: str, settings: Mapping[str, object], weights_from: Path | None
) -> Recipe:
    """With single settings changed, and what it does not set from the run that it begins with."""
    if isinstance(recipe, str | Path):
        name, tables = str(recipe), config.load(str(recipe))
    elif isinstance(recipe, Mapping):
        tables = {table: plain(values) for table, values in deepcopy(dict(recipe)).items()}
    else:
        raise ConfigError(f"a recipe is a name, a file or a dict of its tables, not {type(recipe).__name__}")
    for key, value in settings.items():
        if not all(key.split(".")) or "." not in key:
            raise ConfigError(f"settings are named as table.name, such as 'training.steps'; got {key!r}")
        config.change(tables, key, plain(value), f"settings, {key!r}")
    return Recipe.of(name, tables if weights_from is None else inherit(Path(name).stem, tables, weights_from))


def plain(value: Any) -> Any:  # whatever a setting may be; what is none is refused by its table
    """As TOML has it."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def train_recipe(
    recipe: Recipe,
    folder: Path,
    device: str | None,
    weights_from: Path | None,
    resume: bool,
    quiet: bool = False,
    note: str = "",
    keeps_data: bool = False,
    minutes: float | None = None,
) -> tuple[Prepared, Screen]:
    """Leaves a finished run in the folder; of several processes, one writes and speaks."""
    begun = time.monotonic()
    if resume and weights_from:
        raise ConfigError(f"a resumed run continues from its own weights: leave out --resume, or --from {weights_from}")
    check_minutes(minutes, resume)
    on = choose_device(device, local_rank())
    recipe = replace(recipe, distribution=recipe.distribution.for_processes(n_started()))
    check_device(recipe.distribution, on)
    needs = what_needs_weights(recipe)
    if needs and not (weights_from or resume):
        raise ConfigError(f"{recipe.name} {needs}")
    with joined(on, recipe.distribution.timeout) as processes, threads_of(recipe.distribution):
        screen = open_screen(is_silent=quiet or not processes.is_leader)
        screen.say(f"{'resuming' if resume else 'training'} {recipe.name} in {folder}: reading the data")
        if note:
            screen.say(note)
        with only_one(folder) if processes.is_leader else nullcontext():
            with processes.leader_first(), left_as_found(folder) if processes.is_leader else nullcontext():
                if processes.is_leader:
                    note_job(folder)
                prepared = prepare(recipe, folder, resume, weights_from, is_leader=processes.is_leader, device=on)
                if keeps_data and processes.is_leader:
                    screen.say(f"the data are kept: {copy_data(prepared.recipe.data, folder)}")
                if minutes is not None and not recipe.model_class.is_counted:
                    prepared = shorten(prepared, minutes, begun, on, screen)
                    write_recipe(prepared.recipe, folder)
            start(prepared, folder, on, resume, screen, processes)
    return prepared, screen


def check_minutes(minutes: float | None, resume: bool) -> None:
    if minutes is None:
        return
    if not 0 < minutes < math.inf:
        raise ConfigError(f"minutes must be above 0, got {minutes:g}")
    if resume:
        raise ConfigError("a resumed run has the steps that it began with: leave out the minutes, or --resume")
    if n_started() > 1:
        raise ConfigError("minutes are for one process: set training.steps, or start it without torchrun")


def what_needs_weights(recipe: Recipe) -> str:
    """Why a recipe cannot start from random weights, and what to do; "" if it can."""
    if recipe.model.needs_weights:
        return (
            "freezes a part of its model as another run trained it: give that run, --from RUN, "
            "or train all of it: --set model.frozen=false"
        )
    if recipe.task_class.needs_weights:
        return recipe.task_class.needs_weights
    if recipe.training.from_run:
        return "takes its model and its tokenizer from a run: give that run, --from RUN"
    if recipe.training.frozen or recipe.training.last_layers:
        return "freezes what another run has learned: give that run, --from RUN, or set no training.frozen, last_layers"
    if recipe.lora.rank:
        return "adapts a trained run: give that run, --from RUN, or train a whole new model: --set lora.rank=0"
    return ""
