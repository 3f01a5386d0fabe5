"""What a recipe takes from the run that it begins with: the shape of the model, the tokenizer, and the tokens around
texts.

What it sets itself must be the same there, or it is an error that names the setting."""

from collections.abc import Collection, Iterable
from pathlib import Path

from regard import config
from regard.errors import ConfigError, RunError
from regard.models.config import LEARNING_SETTINGS
from regard.runs.recipe import Recipe, task_settings
from regard.text.imported import IMPORTED


def read_recipe(name: str, overrides: Iterable[str] = (), run: Path | None = None) -> Recipe:
    """As `Recipe.read`; with a run to begin with, its model and tokenizer where the recipe does not set them."""
    settings = config.load(name, overrides)
    return Recipe.of(name, settings if run is None else inherit(Path(name).stem, settings, run))


def inherit(name: str, settings: config.Settings, run: Path) -> config.Settings:
    if not (run / "recipe.toml").is_file():
        raise RunError(f"--from {run} is not a run folder: it has no recipe.toml")
    theirs = Recipe.of_run(run)
    tables = theirs.tables()
    for table in ("task", "model", "tokenizer"):
        if not isinstance(settings.get(table, {}), dict):
            return settings  # the recipe says what is wrong with it
    own_model, own_tokenizer = dict(settings.get("model", {})), dict(settings.get("tokenizer", {}))
    changed = dict(settings)
    if theirs.task_class.reads_text:
        if is_enough(own_tokenizer, theirs):
            own_tokenizer["vocab_size"] = theirs.tokenizer.vocab_size
        changed["tokenizer"] = joined(name, "tokenizer", own_tokenizer, tables["tokenizer"], run, {"dropout"})
    elif "vocab_size" not in own_model:
        del tables["model"]["vocab_size"]  # that of a tokenizer which the run does not need
    framing = {setting: tables["task"][setting] for setting in both_frame(settings.get("task", {}), theirs)}
    if framing:
        changed["task"] = joined(name, "task", dict(settings.get("task", {})), framing, run, ())
    # A model of another architecture may have the run's as a part; whether its weights fit is known when they are taken
    if own_model.get("architecture", theirs.architecture) == theirs.architecture:
        free = LEARNING_SETTINGS if has_same_shapes(theirs, own_model) else LEARNING_SETTINGS - {"max_length"}
        changed["model"] = joined(name, "model", own_model, tables["model"], run, free)
    return changed


def both_frame(own: config.Settings, theirs: Recipe) -> list[str]:
    """The settings of the task that say which tokens stand around texts, where the run has them, too."""
    settings = task_settings(own)
    return [] if settings is None else [name for name in settings.of_run if name in theirs.task.of_run]


def has_same_shapes(theirs: Recipe, own: config.Settings) -> bool:
    """Whether the model of the run has the same weights with the longest length that the recipe asks for: where
    positions are learned it has not."""
    length = own.get("max_length", theirs.model.max_length)
    if length == theirs.model.max_length or not isinstance(length, int):
        return True
    longer = Recipe.of(theirs.name, {**theirs.tables(), "model": {**theirs.tables()["model"], "max_length": length}})
    shapes = [{name: weight.shape for name, weight in it.sketch().named_parameters()} for it in (theirs, longer)]
    return shapes[0] == shapes[1]


def is_enough(own: config.Settings, theirs: Recipe) -> bool:
    """Whether a recipe asks for at least as many tokens as a learned vocabulary has: a small text gives fewer.  Special
    tokens that the recipe does not name come on top."""
    size, more = own.get("vocab_size"), 0 if "extra" in own else len(theirs.tokenizer.extra)
    return isinstance(size, int) and size + more >= theirs.tokenizer.vocab_size and theirs.tokenizer.kind != IMPORTED


def joined(
    name: str, table: str, own: config.Settings, theirs: config.Settings, run: Path, free: Collection[str]
) -> config.Settings:
    """The settings of the run; the recipe's own may differ where they are `free`."""
    differing = [
        f"{table}.{setting} = {config.to_toml(value)} ({run} has {config.to_toml(plain(theirs.get(setting)))})"
        for setting, value in own.items()
        if setting not in free and setting in theirs and plain(theirs[setting]) != plain(value)
    ]
    if differing:
        raise ConfigError(
            f"{name} sets what differs from the run that it begins with: {', '.join(differing)}; leave it out, or "
            "begin with another run"
        )
    return {**theirs, **own}


def plain(value: object) -> object:
    """As TOML has it: a list where a dataclass has a tuple."""
    return list(value) if isinstance(value, tuple) else value
