"""Weights carried from their files to our model and back, by the table of their family."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from regard.errors import RunError
from regard.interop.families.family import Family, Weight
from regard.interop.families.settings import exchange_of
from regard.interop.formats.safe import Stored
from regard.runs.recipe import Recipe


class Carried(NamedTuple):
    tensors: dict[str, Tensor]  # by our names
    left_out: list[str]  # theirs that this task does not use


def take(stored: Stored, family: Family, recipe: Recipe, own: Mapping[str, Tensor], where: str) -> Carried:
    """Their tensors as ours.  `own` are our model's, of which only the shapes count: they may be on the meta device.

    Names and shapes are compared before any number is read.
    """
    table = list(family.weights(recipe))
    places = {weight.theirs: place(weight.theirs, stored, family) for weight in table}
    missing = [name for name, spelling in places.items() if spelling is None]
    if missing:
        raise RunError(f"{where} lacks {len(missing)} tensors that its config.json asks for, such as {missing[0]}")
    unused = stored.shapes.keys() - places.values()
    unknown = unused - copies_in(unused, stored, family, where) - computed_in(unused, stored, family, recipe, where)
    left_out = sorted(name for name in unknown if family.is_head(name))
    unknown = {name for name in unknown if not (family.is_head(name) or family.is_spare(name))}
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


def place(name: str, stored: Stored, family: Family) -> str | None:
    """The name under which the files have it."""
    return next((spelling for spelling in family.spellings(name) if spelling in stored.shapes), None)


def copies_in(unused: set[str], stored: Stored, family: Family, where: str) -> set[str]:
    """Those that are a tensor's second name.  They may differ after all; then they are not what they seem."""
    copies = set()
    for second, first in family.copies:
        copy, original = place(second, stored, family), place(first, stored, family)
        if copy is None or original is None or copy not in unused:
            continue
        if not torch.equal(stored.read(copy), stored.read(original)):
            raise RunError(f"{where}: {copy} is not {original}, and regard's model has only one; nothing was imported")
        copies.add(copy)
    return copies


def computed_in(unused: set[str], stored: Stored, family: Family, recipe: Recipe, where: str) -> set[str]:
    """Those that both sides compute, such as a table of sines, and that are what we compute."""
    computed = set()
    for name in unused:
        ours = family.computed(recipe, name)
        if ours is None:
            continue
        if stored.shapes[name] != tuple(ours.shape) or not torch.allclose(stored.read(name), ours, atol=1e-4):
            raise RunError(f"{where}: {name} is not what regard computes in its place; nothing was imported")
        computed.add(name)
    return computed


def check_shapes(weight: Weight, shape: tuple[int, ...], own: Mapping[str, Tensor], where: str) -> None:
    wanted = [tuple(own[name].shape) for name in weight.ours]
    try:
        got = [tuple(part.shape) for part in weight.form.ours(torch.empty(shape, device="meta"))]
    except (RuntimeError, IndexError):  # it cannot be cut so
        got = [shape]
    if got != wanted:
        raise RunError(f"{where}: {weight.theirs} is {shape}, which gives {got}; its config.json asks for {wanted}")


def give(tensors: Mapping[str, Tensor], family: Family, recipe: Recipe) -> dict[str, Tensor]:
    """Our tensors as theirs, by their names; a model without a head is named without the family's prefix."""
    prefix = "" if exchange_of(recipe).head else family.prefix
    return {name.removeprefix(prefix): tensor for name, tensor in as_theirs(tensors, family.weights(recipe)).items()}


def as_theirs(tensors: Mapping[str, Tensor], table: Iterable[Weight]) -> dict[str, Tensor]:
    return {weight.theirs: weight.form.theirs([tensors[name] for name in weight.ours]).contiguous() for weight in table}
