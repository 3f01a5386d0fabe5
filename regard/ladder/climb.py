"""Training rung after rung, each a run of its own, and what each is worth on the same test."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import config
from regard.config import Settings
from regard.data.files.reading import read_examples
from regard.errors import ConfigError, RunError
from regard.evaluation.translation import bleu, exact_match
from regard.ladder.budget import Budget, course, course_in
from regard.ladder.rungs import Ladder, Rung
from regard.models import ARCHITECTURES
from regard.runs.durable import only_one
from regard.runs.recipe import TABLES, Recipe
from regard.runs.run import Run, load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start


@dataclass(frozen=True, kw_only=True)
class RungRow:
    """What is known of one rung."""

    rung: str
    title: str
    run: str  # its folder
    of: str  # what it was measured on
    figures: dict[str, float]
    parameters: int  # learnt by gradients
    counts: int  # of a model that counts
    steps: int
    tokens: int  # learnt from, each as often as it was read
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def write_recipes(
    ladder: Ladder, names: list[str], data: Settings, budget: Budget, overrides: list[str], folder: Path
) -> dict[str, Recipe]:
    """The recipe of every rung, also as an ordinary TOML file.

    "model.d_model=64" changes every rung that has the setting, "lstm.model.d_model=64" one rung.
    """
    own = {name: [one.removeprefix(f"{name}.") for one in overrides if one.startswith(f"{name}.")] for name in names}
    of_all = [one for one in overrides if one.partition(".")[0] not in ladder.rungs]
    of_model = [one.removeprefix("model.") for one in of_all if one.startswith("model.")]
    shared = config.load(ladder.recipe, [one for one in of_all if not one.startswith("model.")])
    shared["data"] = {**shared["data"], **data}
    models = {name: rung.model or shared["model"] for name, rung in ladder.rungs.items()}
    for one in of_model:
        if not any(has_setting(model, one) for model in models.values()):
            raise ConfigError(f"no rung has a setting model.{one.partition('=')[0]}; the rungs: {', '.join(models)}")
    folder.mkdir(parents=True, exist_ok=True)
    recipes = {}
    for name in names:
        rung, model = ladder.rungs[name], models[name]
        fitting = [one for one in of_model if has_setting(model, one)]
        path = folder / f"{name}.toml"
        training = training_table(rung, shared["training"], budget, of_all)
        config.write({**shared, "model": model, "training": training}, path)
        config.write(config.load(str(path), [*(f"model.{one}" for one in fitting), *own[name]]), path)
        recipes[name] = Recipe.read(str(path))
    return recipes


def has_setting(model: Settings, override: str) -> bool:
    fields = dataclasses.fields(ARCHITECTURES[model["architecture"]].config)
    return override.partition("=")[0] in {field.name for field in fields}


def training_table(rung: Rung, shared: Settings, budget: Budget, overrides: list[str]) -> Settings:
    """With the rung's rate and the budget's steps, unless --set says otherwise."""
    rate = {} if rung.learning_rate is None else {"learning_rate": rung.learning_rate}
    chosen = {**rate, **({} if budget.steps is None else course(budget.steps))}
    asked = {one.partition("=")[0] for one in overrides}
    return {**shared, **{name: value for name, value in chosen.items() if f"training.{name}" not in asked}}


def climb(
    ladder: Ladder,
    recipes: dict[str, Recipe],
    folder: Path,
    budget: Budget,
    device: torch.device,
    open_screen: Callable[[], Screen],
) -> Iterator[RungRow]:
    """One row a rung, as soon as it is there.  A finished rung is not trained again, a begun one goes on."""
    for number, (name, recipe) in enumerate(recipes.items(), start=1):
        screen, rung, run = open_screen(), ladder.rungs[name], folder / name
        screen.say(f"rung {number} of {len(recipes)}: {rung.title}, in {run}")
        if is_finished(run):
            check_same(run, recipe, budget)
            screen.say("trained already")
        else:
            with only_one(run):
                train(recipe, run, budget, device, screen)
        screen.close()
        yield measure(name, rung, load(run, str(device)))


def is_finished(run: Path) -> bool:
    return (run / "result.json").is_file()


def train(recipe: Recipe, run: Path, budget: Budget, device: torch.device, screen: Screen) -> None:
    resume = (run / "checkpoints").is_dir()
    if resume:
        check_same(run, recipe, budget)
        recipe = Recipe.read(str(run))
    prepared = prepare(recipe, run, resume)
    if budget.seconds is not None and not resume and not ARCHITECTURES[recipe.architecture].is_counted:
        fitting = course_in(budget.seconds, prepared, device)
        screen.say(f"{fitting['steps']:,} steps fit into {budget.seconds:,.0f} seconds, measured on the first of them")
        training = dataclasses.replace(prepared.recipe.training, **fitting)
        prepared = dataclasses.replace(prepared, recipe=dataclasses.replace(prepared.recipe, training=training))
        prepared.recipe.write(run / "recipe.toml")
    start(prepared, run, device, resume, screen)


def check_same(run: Path, wanted: Recipe, budget: Budget) -> None:
    """A rung that was trained with other settings has no place in this ladder."""
    there = Recipe.read(str(run))
    wanted = wanted.with_vocabulary(there.tokenizer.vocab_size)
    if budget.seconds is not None:  # how many steps fit in was measured then
        wanted = dataclasses.replace(wanted, training=dataclasses.replace(wanted.training, **course_of(there)))
    for table in TABLES:
        old, new = (config.as_settings(getattr(recipe, table)) for recipe in (there, wanted))
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                raise RunError(
                    f"{run} was trained with {table}.{name} = {old.get(name)!r}, now it is {new.get(name)!r}; the "
                    "run is left as it is. Ask for the same, or choose another folder with --out"
                )


def course_of(recipe: Recipe) -> dict[str, Any]:
    return {name: getattr(recipe.training, name) for name in course(1)}


def measure(name: str, rung: Rung, run: Run) -> RungRow:
    result = json.loads((run.folder / "result.json").read_text(encoding="utf-8"))
    of, figures = MEASURES[run.recipe.kind](run)
    return RungRow(
        rung=name,
        title=rung.title,
        run=str(run.folder),
        of=of,
        figures=figures,
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        counts=run.model.n_counts if ARCHITECTURES[run.recipe.architecture].is_counted else 0,
        steps=result["steps"],
        tokens=result["tokens"],
        seconds=result["seconds"],
    )


def of_language(run: Run) -> tuple[str, dict[str, float]]:
    of, metrics = run.measure()
    return of, {metric.name: metric.value for metric in metrics}


def of_translation(run: Run) -> tuple[str, dict[str, float]]:
    data = run.recipe.data
    sources, references = read_examples(data.test, data.columns, data.root).columns
    outputs = [answer.text for answer in run.translate(sources)]
    metrics = [bleu(outputs, references, resamples=0), exact_match(outputs, references)]
    return f"{len(sources):,} test lines", {metric.name: metric.value for metric in metrics}


MEASURES: dict[str, Callable[[Run], tuple[str, dict[str, float]]]] = {
    "language": of_language,
    "translation": of_translation,
}
