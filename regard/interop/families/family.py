"""What a family of models is to us: how its settings are read and written, and which of its weights are ours."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from regard.interop.families.forms import AS_IS, Form
from regard.interop.families.settings import Theirs
from regard.runs.recipe import Recipe


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


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type`.  `weights` lists theirs under the names that a model with a head has; without one, the names
    lack `prefix`.  `spare` are patterns of their tensors that we have no use for and that change no answer (buffers,
    second names); `heads` are patterns of what only other tasks use: skipped, with a note."""

    read_config: Callable[[Theirs], Imported]
    write_config: Callable[[Recipe], dict[str, Any]]
    weights: Callable[[Recipe], Iterable[Weight]]
    architecture: str = "stack"  # ours
    prefix: str = ""
    spare: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    old_endings: tuple[tuple[str, str], ...] = ()  # how a name ends, and how it did in older files
    copies: tuple[tuple[str, str], ...] = ()  # a tensor that may be present, too, and the one that it must equal
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
