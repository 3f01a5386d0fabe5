"""The settings of a model in another tool's words, read and written by one table."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.choose import choose
from regard.config import Settings
from regard.errors import ConfigError
from regard.runs.recipe import Recipe
from regard.tasks.exchange import Exchange

LONGEST = 1 << 24  # places of a model that has no table of them in its files
# What attention has unless a family is known for something else ...
PLAIN_ATTENTION = {"score": "scaled_dot", "bias": "all", "n_key_heads": 0, "d_head": 0, "norm_heads": False}
# ... and a stack.
PLAIN = PLAIN_ATTENTION | {"scale_embedding": False, "embedding_norm": False, "n_segments": 0, "d_embedding": 0}


class Theirs:
    """The settings of a config.json, checked when they are read.  They are untrusted: nothing that they count may
    exceed what the files hold, so that they cannot make us take memory."""

    def __init__(self, settings: Settings, n_weights: int, n_tensors: int):
        self.settings, self.n_weights, self.n_tensors = settings, n_weights, n_tensors

    def within(self, settings: Settings) -> "Theirs":
        """A table of them, under the same limits."""
        return Theirs(settings, self.n_weights, self.n_tensors)

    def get(self, name: str, default: object) -> object:
        """As it is there; null is the default."""
        value = self.settings.get(name)
        return default if value is None else value

    def integer(self, name: str, default: int | None, most: int, least: int = 1) -> int:
        value = self.get(name, default)
        if type(value) is not int or not least <= value <= most:
            raise ConfigError(f"{name} must be a whole number from {least:,} to {most:,} in these files, got {value!r}")
        return value

    def width(self, name: str, default: int | None = None) -> int:
        """A size of tensors: no more than all numbers in the files."""
        return self.integer(name, default, self.n_weights)

    def layers(self, name: str, default: int | None = None) -> int:
        return self.integer(name, default, self.n_tensors)

    def length(self, name: str, default: int | None = None) -> int:
        """Of the longest text, for positions that are computed."""
        return self.integer(name, default, LONGEST)

    def token(self, name: str, default: int | None = None) -> int:
        return self.integer(name, default, self.n_weights, least=0)

    def number(self, name: str, default: float | None) -> float:
        value = self.get(name, default)
        if (type(value) is not int and type(value) is not float) or not math.isfinite(value):
            raise ConfigError(f"{name} must be a number, got {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name, default)
        if type(value) is not bool:
            raise ConfigError(f"{name} must be true or false, got {value!r}")
        return value

    def choice(self, name: str, choices: Mapping[str, str], default: str) -> str:
        """Their word in ours."""
        value = self.settings.get(name, default)
        if type(value) is not str:
            raise ConfigError(f"{name} must be a word, got {value!r}")
        return choose(choices, value, name)

    def expect(self, **wanted: object) -> None:
        """What regard has no other way of doing.  A setting that is absent is as wanted."""
        for name, value in wanted.items():
            if (got := self.settings.get(name, value)) != value:
                raise ConfigError(f"{name} = {got!r} is not something that regard's models do: it must be {value!r}")

    @property
    def made_by(self) -> str:
        """The class that made the files, such as BertForMaskedLM; "" where they do not say."""
        names = self.settings.get("architectures") or [""]
        if not (isinstance(names, list) and names and isinstance(names[0], str)):
            raise ConfigError(f"architectures must be a list of names, got {names!r}")
        return names[0]


class NoPlaceError(ConfigError):
    """A family that does another task."""


def exchange_of(recipe: Recipe) -> Exchange:
    """What other tools call the run's task.  ConfigError where they have no such task, or no such model."""
    if not recipe.model.is_plain:
        raise ConfigError(
            f"{recipe.name} reads long sequences in a way that other tools' models do not: with attention_window, "
            "hash_rounds, reversible or a memory"
        )
    exchange: Exchange | None = recipe.task_class.exchange
    if exchange is None:
        raise ConfigError(f"other tools have no model for the task of {recipe.name}")
    return exchange


@dataclass(frozen=True)
class SharedSetting:
    """A setting that both sides have: their name for it, how it is checked, and what it is where they do not say."""

    name: str
    check: Callable[[Theirs, str, Any], object] = Theirs.width  # `Any`: a default of the type that it gives
    default: object = None

    def read(self, theirs: Theirs) -> object:
        return self.check(theirs, self.name, self.default)

    def write(self, ours: object, family: str) -> object:
        return ours


@dataclass(frozen=True)
class WordSetting:
    """A setting whose values are words: ours, by theirs."""

    name: str
    words: Mapping[str, str]
    default: str

    def read(self, theirs: Theirs) -> str:
        return theirs.choice(self.name, self.words, self.default)

    def write(self, ours: str, family: str) -> str:
        """The first of their words that means it."""
        for theirs, word in self.words.items():
            if word == ours:
                return theirs
        raise ConfigError(f"{family} has no {ours!r}; it has: {', '.join(dict.fromkeys(self.words.values()))}")


@dataclass(frozen=True, kw_only=True)
class SettingsTable:
    """The table by which config.json is read and written: `shape` is what all models of the family have alike, and
    `table` what each has for itself, by our names."""

    model_type: str
    classes: Mapping[str, str]  # of transformers, by the head of a task
    shape: Mapping[str, object]
    table: Mapping[str, SharedSetting | WordSetting]

    def read(self, theirs: Theirs) -> Settings:
        return {**self.shape, **{ours: setting.read(theirs) for ours, setting in self.table.items()}}

    def write(self, recipe: Recipe, **shape: object) -> dict[str, object]:
        """ConfigError where the model does something that the family cannot; `shape` are exceptions from the rule."""
        family, head = self.model_type, exchange_of(recipe).head
        if head not in self.classes:
            raise NoPlaceError(f"{family} has no model for the task of this run")
        for name, value in {**self.shape, **shape}.items():
            if (got := getattr(recipe.model, name)) != value:
                raise ConfigError(f"{family} needs model.{name} = {value!r}, and this run has {got!r}")
        return {
            "model_type": family,
            "architectures": [self.classes[head]],
            **{
                setting.name: setting.write(getattr(recipe.model, ours), family) for ours, setting in self.table.items()
            },
        }
