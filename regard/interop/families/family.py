"""What a family of models is to us: how its settings are read and written, and which of its weights are ours."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from regard.choose import choose
from regard.errors import ConfigError
from regard.interop.families.forms import AS_IS, Form
from regard.runs.recipe import Recipe

WRITERS = ("language", "prompted", "chat", "preference")  # kinds of tasks in which a text is written token by token
TRANSLATORS = ("translation", "denoising", "label-words")  # kinds of tasks in which a source becomes a target
LONGEST = 1 << 24  # places of a model that has no table of them in its files


class Weight(NamedTuple):
    """A tensor of theirs, the tensors of ours that it holds, and how."""

    theirs: str
    ours: tuple[str, ...]
    form: Form = AS_IS


class Imported(NamedTuple):
    """Their settings in our words: the tables [model] and [task] of a recipe."""

    architecture: str
    model: dict[str, Any]
    kind: str
    task: dict[str, Any]


class Theirs:
    """The settings of a config.json, checked when they are read.  A stranger wrote them: nothing that they count may
    exceed what the files hold, so that they cannot make us take memory."""

    def __init__(self, settings: Mapping[str, Any], n_weights: int, n_tensors: int):
        self.settings, self.n_weights, self.n_tensors = settings, n_weights, n_tensors

    def integer(self, name: str, default: int | None, most: int, least: int = 1) -> int:
        value = self.settings.get(name)
        value = default if value is None else value
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

    def number(self, name: str, default: float) -> float:
        value = self.settings.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ConfigError(f"{name} must be a number, got {value!r}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.settings.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise ConfigError(f"{name} must be true or false, got {value!r}")
        return value

    def choice(self, name: str, choices: Mapping[str, str], default: str) -> str:
        """Their word in ours."""
        value = self.settings.get(name, default)
        if type(value) is not str:
            raise ConfigError(f"{name} must be a word, got {value!r}")
        return choose(choices, value, name)

    def expect(self, **wanted: Any) -> None:
        """What regard has no other way of doing.  A setting that is absent is as wanted."""
        for name, value in wanted.items():
            if (got := self.settings.get(name, value)) != value:
                raise ConfigError(f"{name} = {got!r} is not something that regard's models do: it must be {value!r}")

    @property
    def heads(self) -> str:
        """The class that made the files, such as BertForMaskedLM; "" where they do not say."""
        names = self.settings.get("architectures") or [""]
        if not (isinstance(names, list) and names and isinstance(names[0], str)):
            raise ConfigError(f"architectures must be a list of names, got {names!r}")
        return names[0]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type`.  `weights` lists theirs under the names that a model with a head has; without one, the names
    lack `prefix`.  `spare` are patterns of their tensors that we have no use for and that change no answer (buffers,
    second names); `heads` are patterns of what only other tasks read: left out, and said so."""

    read_config: Callable[[Theirs], Imported]
    write_config: Callable[[Recipe], dict[str, Any]]
    weights: Callable[[Recipe], Iterable[Weight]]
    architecture: str = "stack"  # ours
    prefix: str = ""
    spare: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    old_endings: tuple[tuple[str, str], ...] = ()  # how a name ends, and how it did in older files
    copies: tuple[tuple[str, str], ...] = ()  # a tensor that may be there besides, and the one that it must equal
    computed: Callable[[Recipe, str], Tensor | None] = lambda recipe, name: None  # what another such tensor must equal

    def spellings(self, name: str) -> list[str]:
        """The names that one of their tensors may have, the usual one first."""
        names = [name, *(name.removesuffix(new) + old for new, old in self.old_endings if name.endswith(new))]
        return names + [name.removeprefix(self.prefix) for name in names]

    def is_spare(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.spare)

    def is_head(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.heads)


def product(theirs: str, ours: str, form: Form = AS_IS, bias: bool = True) -> Iterator[Weight]:
    """The weights of a product or a norm and, where it has one, its bias."""
    yield Weight(f"{theirs}.weight", (f"{ours}.weight",), form)
    if bias:
        yield Weight(f"{theirs}.bias", (f"{ours}.bias",))


# What a stack has unless a family is known for something else.
PLAIN = {
    "score": "scaled_dot",
    "bias": "all",
    "n_key_heads": 0,
    "d_head": 0,
    "norm_heads": False,
    "scale_embedding": False,
    "embedding_norm": False,
    "n_segments": 0,
    "d_embedding": 0,
}


class NoPlaceError(ConfigError):
    """A family that does another task."""


def require(recipe: Recipe, family: str, kinds: tuple[str, ...], wanted: Mapping[str, Any]) -> None:
    """Raise where a model does something that the family cannot."""
    if recipe.kind not in kinds:
        raise NoPlaceError(f"{family} cannot hold a run of the task {recipe.kind!r}, only of {', '.join(kinds)}")
    for name, value in wanted.items():
        if (got := getattr(recipe.model, name)) != value:
            raise ConfigError(f"{family} needs model.{name} = {value!r}, and this run has {got!r}")


def word_for(words: Mapping[str, str], ours: str, family: str) -> str:
    """Our word in theirs: the first that means it."""
    for theirs, word in words.items():
        if word == ours:
            return theirs
    raise ConfigError(f"{family} has no {ours!r}; it has: {', '.join(dict.fromkeys(words.values()))}")
