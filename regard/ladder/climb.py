"""Training rung after rung, each a run of its own, and measuring each on the same test.  Every rung may spend as many
steps, and so as many tokens, or as much time; or it ends when nothing gets better."""

import copy
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from regard import config
from regard.checks import expect
from regard.config import Settings
from regard.data.config import DataConfig
from regard.errors import ConfigError, RunError
from regard.ladder.rungs import Ladder, Rung
from regard.ladder.standings import RungRow
from regard.models import ARCHITECTURES
from regard.models.markov import Markov
from regard.runs.durable import only_one, write_file
from regard.runs.history import read_metrics
from regard.runs.recipe import Recipe
from regard.runs.records import read_result
from regard.runs.run import Run, load
from regard.text.tokenizer import Tokenizer, TokenizerConfig
from regard.training.environment import reproducible
from regard.training.learner import Learner
from regard.training.prepare import Prepared, prepare
from regard.training.screen import Screen
from regard.training.start import start

# What was learned from the same texts with the same settings: rungs share it.
SharedTokenizers = dict[tuple[TokenizerConfig, DataConfig], Tokenizer]

TIMED = {"cpu": 8, "cuda": 40}  # steps; those of a GPU are quick, and differ more
METRICS = "metrics.jsonl"
BUDGET = "budget.json"
MOST_VALIDATIONS = 100  # of a training that ends when nothing gets better
AVERAGING = 0.998  # of weights, there
N_VALIDATIONS = 5  # of a training, the last one at its end
VALIDATING = 0.2  # of the time at most
WARMUP = 0.1  # of the steps


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Steps or seconds; with patience, at most so many."""

    steps: int | None = None
    seconds: float | None = None
    patience: int | None = None  # validations without a new best, after which a rung is done

    def words(self) -> str:
        most = f"{self.steps:,} steps" if self.seconds is None else f"{self.seconds:g} seconds of training"
        if self.patience is not None:
            return f"each until {self.patience} validations bring nothing better, at most {most}"
        return f"{most} each"

    @property
    def n_validations(self) -> int:
        return N_VALIDATIONS if self.patience is None else MOST_VALIDATIONS

    def course(self, steps: int, n_validations: int) -> Settings:
        """All settings of a training that follow from its steps."""
        every = -(-steps // n_validations)
        warmup = int(WARMUP * steps) if self.patience is None else every
        return {"steps": steps, "warmup": warmup, "validate_every": every, "save_every": every}

    def known(self) -> Settings:
        """What of a training follows from it before anything is measured."""
        course = {} if self.steps is None else self.course(self.steps, self.n_validations)
        if self.patience is None:
            return course
        # A rate that falls to zero at the end needs to know the end: here averaged weights take its place.
        return {**course, "schedule": "constant", "ema": AVERAGING, "patience": self.patience}


def check_budget(folder: Path, budget: str) -> None:
    """Rungs of one ladder have one budget."""
    path = folder / BUDGET
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else budget
    if before != budget:
        raise RunError(
            f"{folder} is a ladder of {before}, now it is {budget}; nothing was changed. "
            "Use the same budget, or choose another folder with --out"
        )


def keep_budget(folder: Path, budget: str) -> None:
    """That of the ladder, from the first rung on whose data could be read."""
    check_budget(folder, budget)
    write_file(folder / BUDGET, json.dumps(budget).encode())


def course_in(budget: Budget, seconds: float, prepared: Prepared, device: torch.device) -> Settings:
    """As many steps as fit into the time, with the validations between: measured on a copy, which is thrown away."""
    task, recipe, n_timed = prepared.task, prepared.recipe, TIMED[device.type]
    learner = Learner(copy.deepcopy(prepared.model).to(device).train(), task, recipe.training, device, recipe.d_model)
    with reproducible(device):
        for step in range(1, n_timed + 1):
            if step == n_timed // 2 + 1:  # the first ones set up memory and kernels
                learner.read()
                begin = time.perf_counter()
            place = 0, (step - 1) % task.n_batches(0)
            learner.update(step, [task.batch(*place).to(device)], [place])
        learner.read()  # which waits for the device
        for_a_step = (time.perf_counter() - begin) / (n_timed - n_timed // 2)
        with learner.resting():
            begin = time.perf_counter()
            task.validate(learner.model)
        for_a_validation = time.perf_counter() - begin
    n_between = min(budget.n_validations - 1, int(VALIDATING * seconds / for_a_validation))
    return budget.course(max(1, int((seconds - n_between * for_a_validation) / for_a_step)), n_between + 1)


def write_recipes(
    ladder: Ladder, names: list[str], data: Settings, budget: Budget, overrides: list[str], folder: Path
) -> dict[str, Recipe]:
    """The recipe of every rung, also as an ordinary TOML file: with its own rate and the budget's steps, unless
    `overrides` say otherwise.

    "model.d_model=64" changes every rung that has the setting, "lstm.model.d_model=64" one rung.
    """
    own = {name: after(f"{name}.", overrides) for name in names}
    of_all = [override for override in overrides if override.partition(".")[0] not in ladder.rungs]
    of_model = after("model.", of_all)
    shared = config.load(ladder.recipe, [override for override in of_all if not override.startswith("model.")])
    shared["data"] = {**shared["data"], **data}
    models = {name: rung.model or shared["model"] for name, rung in ladder.rungs.items()}
    for setting in of_model:
        if not any(has_setting(model, setting) for model in models.values()):
            name = setting.partition("=")[0]
            raise ConfigError(f"no rung has a setting model.{name}; the rungs: {', '.join(models)}")
    folder.mkdir(parents=True, exist_ok=True)
    of_training = [override for override in of_all if override.startswith("training.")]
    known = budget.known()
    recipes = {}
    for name in names:
        model, rate, path = models[name], ladder.rungs[name].learning_rate, folder / f"{name}.toml"
        fitting = [f"model.{setting}" for setting in of_model if has_setting(model, setting)]
        training = {**shared["training"], **({} if rate is None else {"learning_rate": rate}), **known}
        config.write({**shared, "model": model, "training": training}, path)
        config.write(config.load(str(path), [*of_training, *fitting, *own[name]]), path)
        recipes[name] = Recipe.read(str(path))
    return recipes


def after(prefix: str, overrides: list[str]) -> list[str]:
    """What follows the prefix in the overrides that have it."""
    return [override.removeprefix(prefix) for override in overrides if override.startswith(prefix)]


def has_setting(model: Settings, override: str) -> bool:
    return override.partition("=")[0] in {field.name for field in fields(ARCHITECTURES[model["architecture"]].config)}


def climb(
    ladder: Ladder,
    recipes: dict[str, Recipe],
    folder: Path,
    budget: Budget,
    device: torch.device,
    open_screen: Callable[[], Screen],
) -> Iterator[RungRow]:
    """One row for each rung, as soon as it is trained.  Finished rungs are not trained again; others are resumed."""
    tokenizers: SharedTokenizers = {}
    for number, (name, recipe) in enumerate(recipes.items(), start=1):
        screen, rung, run = open_screen(), ladder.rungs[name], folder / name
        screen.say(f"rung {number} of {len(recipes)}: {rung.title}, in {run}")
        if (run / "result.json").is_file():
            check_same(run, recipe, budget)
            screen.say("trained already")
        else:
            with only_one(run):
                train(recipe, run, budget, device, screen, tokenizers)
        screen.close()
        yield measure(name, rung, load(run, str(device)))


def train(
    recipe: Recipe, run: Path, budget: Budget, device: torch.device, screen: Screen, tokenizers: SharedTokenizers
) -> None:
    resume = (run / "checkpoints").is_dir()
    if resume:
        check_same(run, recipe, budget)
        recipe = Recipe.of_run(run)
    texts = recipe.tokenizer, recipe.data
    prepared = prepare(recipe, run, resume, learned=tokenizers.get(texts))
    tokenizers[texts] = prepared.tokenizer
    with only_one(run.parent, waits=True):
        keep_budget(run.parent, budget.words())
    if budget.seconds is not None and not resume and not recipe.model_class.is_counted:
        fitting = course_in(budget, budget.seconds, prepared, device)
        screen.say(f"{fitting['steps']:,} steps fit into {budget.seconds:,.0f} seconds, measured on the first of them")
        recipe = replace(prepared.recipe, training=replace(prepared.recipe.training, **fitting))
        recipe.write(run / "recipe.toml")
        prepared = replace(prepared, recipe=recipe)
    start(prepared, run, device, resume, screen)


def check_same(run: Path, wanted: Recipe, budget: Budget) -> None:
    """A rung that was trained with other settings has no place in this ladder."""
    trained = Recipe.of_run(run)
    wanted = wanted.with_vocabulary(trained.tokenizer.vocab_size)
    if budget.seconds is not None:  # how many steps fit in was measured then
        measured = {name: getattr(trained.training, name) for name in budget.course(1, 1)}
        wanted = replace(wanted, training=replace(wanted.training, **measured))
    for table, setting, before, now in wanted.changes(trained):
        raise RunError(
            f"{run} was trained with {table}.{setting} = {before!r}, now it is {now!r}; the "
            "run is left as it is. Use the same settings, or choose another folder with --out"
        )


def measure(name: str, rung: Rung, run: Run) -> RungRow:
    result = read_result(run.folder)
    measured = run.measure()
    return RungRow(
        rung=name,
        title=rung.title,
        run=str(run.folder),
        of=measured.of,
        figures={metric.name: metric.value for metric in measured.metrics},
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        counts=expect(run.model, Markov).n_counts if run.model.is_counted else 0,
        steps=result["steps"],
        tokens=result["tokens"],
        seconds=result["seconds"],
        ended=result["reason"],
        curve=read_curve(run.folder),
    )


def read_curve(folder: Path) -> list[tuple[int, float]]:
    """Of a run that was trained by steps; a model that counts has none."""
    curve, n_tokens = [], 0
    for row in read_metrics(folder / METRICS) if (folder / METRICS).is_file() else ():
        if row["kind"] == "train":
            n_tokens += row["n_tokens"]
        elif n_tokens:
            curve.append((n_tokens, row["loss"]))
    return curve
