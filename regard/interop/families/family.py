"""What a family of models is to us: how its settings are read and written, which of its weights are ours, and how they
are carried from its files to our model and back."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.config import Settings
from regard.errors import RunError
from regard.interop.families.settings import Theirs, exchange_of
from regard.interop.families.tensor_forms import AS_IS, Form
from regard.runs.recipe import Recipe


class Weight(NamedTuple):
    """A tensor of theirs, the tensors of ours that it holds, and how."""

    theirs: str
    ours: tuple[str, ...]
    form: Form = AS_IS


class Imported(NamedTuple):
    """Their settings in our words: the tables [model] and [task] of a recipe."""

    model: Settings
    kind: str
    task: Settings


class Stored(Protocol):
    """Tensors in files: their shapes at once, their numbers when they are needed."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def read(self, name: str) -> Tensor:
        """In float32.  RunError if it contains NaN or infinity."""
        ...


class Carried(NamedTuple):
    tensors: dict[str, Tensor]  # by our names
    left_out: list[str]  # theirs that this task does not use


@dataclass(frozen=True, kw_only=True)
class Family:
    """One `model_type`.  `weights` lists theirs under the names that a model with a head has; without one, the names
    lack `prefix`.  `spare` are patterns of their tensors that we have no use for and that change no answer (buffers,
    second names); `heads` are patterns of what only other tasks use: skipped, with a note."""

    read_config: Callable[[Theirs], Imported]
    write_config: Callable[[Recipe], dict[str, object]]
    weights: Callable[[Recipe], Iterable[Weight]]
    architecture: str = "stack"  # ours
    beside: str = ""  # a second file of settings, which stands under this name among those of config.json
    reads_images: bool = False
    prefix: str = ""
    spare: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    old_endings: tuple[tuple[str, str], ...] = ()  # how a name ends, and how it did in older files
    renamed: tuple[tuple[str, str], ...] = ()  # patterns in names, and what other versions write there
    copies: tuple[tuple[str, str], ...] = ()  # a tensor that may be present, too, and the one that it must equal
    computed: Callable[[Recipe, str], Tensor | None] = lambda recipe, name: None  # what another such tensor must equal

    def spellings(self, name: str) -> list[str]:
        """The names that one of their tensors may have, the usual one first."""
        names = [name, *(name.removesuffix(new) + old for new, old in self.old_endings if name.endswith(new))]
        other = name
        for pattern, replacement in self.renamed:
            other = re.sub(pattern, replacement, other)
        names.append(other)
        return names + [name.removeprefix(self.prefix) for name in names]

    def is_spare(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.spare)

    def is_head(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.heads)

    def take(self, stored: Stored, recipe: Recipe, own: Mapping[str, Tensor], where: str) -> Carried:
        """Their tensors as ours.  `own` are our model's, of which only the shapes count: they may be on the meta
        device.  Names and shapes are compared before any number is read."""
        table = list(self.weights(recipe))
        places = {weight.theirs: self.place(weight.theirs, stored) for weight in table}
        missing = [name for name, spelling in places.items() if spelling is None]
        if missing:
            raise RunError(f"{where} lacks {len(missing)} tensors that its config.json asks for, such as {missing[0]}")
        unused = stored.shapes.keys() - places.values()
        unknown = unused - self.copies_in(unused, stored, where) - self.computed_in(unused, stored, recipe, where)
        left_out = sorted(name for name in unknown if self.is_head(name))
        unknown = {name for name in unknown if not (self.is_head(name) or self.is_spare(name))}
        if unknown:
            raise RunError(
                f"{where} holds {len(unknown)} tensors that have no place in regard's model, such as {min(unknown)}; "
                "without them it would not be the same model, so nothing was imported"
            )
        for weight in table:
            check_shapes(weight, stored.shapes[str(places[weight.theirs])], own, where)
        tensors: dict[str, Tensor] = {}
        for weight in table:
            parts = weight.form.ours(stored.read(str(places[weight.theirs])))
            tensors |= {name: part.contiguous() for name, part in zip(weight.ours, parts, strict=True)}
        return Carried(tensors, left_out)

    def place(self, name: str, stored: Stored) -> str | None:
        """The name under which the files have it."""
        return next((spelling for spelling in self.spellings(name) if spelling in stored.shapes), None)

    def copies_in(self, unused: set[str], stored: Stored, where: str) -> set[str]:
        """Those that are a tensor's second name.  They may differ after all; then they are not what they seem."""
        copies = set()
        for second, first in self.copies:
            copy, original = self.place(second, stored), self.place(first, stored)
            if copy is None or original is None or copy not in unused:
                continue
            if not torch.equal(stored.read(copy), stored.read(original)):
                raise RunError(
                    f"{where}: {copy} is not {original}, and regard's model has only one; nothing was imported"
                )
            copies.add(copy)
        return copies

    def computed_in(self, unused: set[str], stored: Stored, recipe: Recipe, where: str) -> set[str]:
        """Those that both sides compute, such as a table of sines, and that are what we compute."""
        expected = {name: ours for name in unused if (ours := self.computed(recipe, name)) is not None}
        for name, ours in expected.items():
            if stored.shapes[name] != tuple(ours.shape) or not torch.allclose(stored.read(name), ours, atol=1e-4):
                raise RunError(f"{where}: {name} is not what regard computes in its place; nothing was imported")
        return set(expected)

    def give(self, tensors: Mapping[str, Tensor], recipe: Recipe) -> dict[str, Tensor]:
        """Our tensors as theirs, by their names; a model without a head is named without the family's prefix."""
        prefix = "" if exchange_of(recipe).head else self.prefix
        return {name.removeprefix(prefix): tensor for name, tensor in as_theirs(tensors, self.weights(recipe)).items()}


def check_shapes(weight: Weight, shape: tuple[int, ...], own: Mapping[str, Tensor], where: str) -> None:
    wanted = [tuple(own[name].shape) for name in weight.ours]
    try:
        got = [tuple(part.shape) for part in weight.form.ours(torch.empty(shape, device="meta"))]
        gives = f", which gives {got}"
    except (RuntimeError, IndexError):  # it cannot be cut so
        got, gives = [], ""
    if got != wanted:
        raise RunError(f"{where}: {weight.theirs} is {shape}{gives}; its config.json asks for {wanted}")


def as_theirs(tensors: Mapping[str, Tensor], table: Iterable[Weight]) -> dict[str, Tensor]:
    return {weight.theirs: weight.form.theirs([tensors[name] for name in weight.ours]).contiguous() for weight in table}


def product(theirs: str, ours: str, form: Form = AS_IS, bias: bool = True) -> Iterator[Weight]:
    """The weights of a product or a norm and, where it has one, its bias."""
    yield Weight(f"{theirs}.weight", (f"{ours}.weight",), form)
    if bias:
        yield Weight(f"{theirs}.bias", (f"{ours}.bias",))
