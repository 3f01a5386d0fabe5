"""Weights of another run as a beginning: all of an equal model, or only its reader, under another task.

origin.json names that run, and knows its weights again.
"""

import dataclasses
import json
import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard import config
from regard.errors import ConfigError, RunError
from regard.memory import check_memory
from regard.models.interface import Model
from regard.nn.lora import DOWN, UP, last_part, merged
from regard.runs.checkpoints import ADAPTER, find_weights
from regard.runs.durable import write_file
from regard.runs.recipe import Recipe
from regard.runs.records import read_record
from regard.runs.weights import check_fit, checksum, read_shapes, read_tensors, set_weights, weights_of

ORIGIN = "origin.json"
MOST_TABLES = 2**28  # numbers of what a model computes and does not store, such as sines: one gibibyte
READER = "reader."  # what a task wraps has these names; a model that no task wraps is a reader as a whole


@dataclass(frozen=True, kw_only=True)
class Origin:
    run: str  # its folder, seen from the folder of this run, so that both may move together
    weights: str  # which of its weights, in words
    sha256: str  # of the file that holds them
    new: tuple[str, ...]  # the weights that it did not have, which began anew

    @classmethod
    def of(cls, run: Path, new: frozenset[str], folder: Path) -> "Origin":
        path, what = find_weights(run)
        seen = os.path.relpath(run.resolve(), folder.resolve())
        return cls(run=seen, weights=what, sha256=checksum(path.read_bytes()), new=tuple(sorted(new)))

    @classmethod
    def read(cls, folder: Path) -> "Origin | None":
        path = folder / ORIGIN
        if not path.is_file():
            return None
        try:
            return config.build(cls, read_record(path) or {}, ORIGIN)
        except ConfigError:
            raise RunError(f"{path} is damaged: it does not say where the weights began; copy it again") from None

    def write(self, folder: Path) -> None:
        write_file(folder / ORIGIN, json.dumps(dataclasses.asdict(self), indent=2).encode())

    def find(self, folder: Path) -> Path:
        """The run again, if it still has the same weights."""
        run = Path(os.path.normpath(folder.resolve() / self.run))
        if not run.is_dir():
            raise RunError(f"{folder} needs the run that it began with, {run}, which is not there; bring it back")
        path, _ = find_weights(run)
        if checksum(path.read_bytes()) != self.sha256:
            raise RunError(f"{folder} began with other weights than {path} has now; bring back those of {self.weights}")
        return run


@dataclass(frozen=True)
class Taken:
    names: frozenset[str]  # weights that came from the other run
    new: frozenset[str]  # weights that begin anew

    def __str__(self) -> str:
        return parts(self.names) + (f"; new: {parts(self.new)}" if self.new else "")


def take_weights(model: Model, run: Path) -> Taken:
    """Give the model all weights of the run's reader, and those of the rest that fit.

    The reader may also become what reads the source of a model that writes.
    """
    path, _ = find_weights(run)
    recipe = Recipe.of_run(run) if (run / "recipe.toml").is_file() else None
    theirs, own = whole_weights(path, run, recipe), weights_of(model)
    inner_theirs, inner_own = inner_names(theirs), inner_names(own)
    of_source = {inner: name for name in own if (inner := model.name_in_reader(name)) is not None}
    is_part = is_wrapped(own)
    if is_wrapped(theirs) and of_source:
        inner_own, is_part = of_source, True
    taken = {inner_own.get(name, name): theirs[place] for name, place in inner_theirs.items()}
    heads = theirs.keys() - inner_theirs.values()  # another task, or one of other labels, has others
    taken |= {name: theirs[name] for name in heads if name in own and theirs[name].shape == own[name].shape}
    new = own.keys() - taken.keys() if is_part else set()
    try:
        set_weights(model, {**{name: own[name] for name in new}, **taken}, str(path))
    except RunError as error:
        raise RunError(f"--from {run}: {error}; its model must have the shape of this recipe's [model]") from None
    return Taken(frozenset(taken), frozenset(new))


def trained_model(run: Path, recipe: Recipe) -> tuple[Model, str]:
    """The model of a run with its weights, and which weights these are, in words."""
    path, what = find_weights(run)
    check_sizes(path, run, recipe)
    model = recipe.build_model()
    set_weights(model, whole_weights(path, run, recipe), str(path))
    return model.eval(), what


def check_sizes(path: Path, run: Path, recipe: Recipe) -> None:
    """Raise where the recipe asks for another model, or a larger one, than the weights are of; before memory is taken.

    A recipe from elsewhere may ask for any size in a few bytes; a file of weights is as large as what it holds.
    """
    shapes, sketch = read_shapes(path), recipe.sketch()
    kept = {name: shape for name, shape in shapes.items() if last_part(name) not in (DOWN, UP)}
    n_stored = numbers_in(path, run, set())
    if path.name != ADAPTER:
        check_fit(sketch, kept, str(path))
    n_weights = sum(parameter.numel() for parameter in sketch.parameters())
    n_tables = sum(buffer.numel() for buffer in sketch.buffers())
    if n_weights > n_stored:
        raise RunError(f"{path} does not fit the model: it has {n_stored:,} numbers, the model {n_weights:,} weights")
    if n_tables > n_stored + MOST_TABLES:
        raise RunError(f"{run / 'recipe.toml'} asks for tables of {n_tables:,} numbers, {n_stored:,} being in {path}")
    check_memory(4 * (n_weights + n_tables), str(run), "load it on a larger machine")


def numbers_in(path: Path, run: Path, seen: set[Path]) -> int:
    """Of a file of weights and, where it holds adapters, of what these adapt."""
    n_numbers = sum(map(math.prod, read_shapes(path).values()))
    origin = Origin.read(run) if path.name == ADAPTER else None
    if origin is None:
        return n_numbers
    adapted = origin.find(run)
    if adapted in seen:
        raise RunError(f"{run / ORIGIN} leads in a circle: {run} began with {adapted}; copy the right one")
    return n_numbers + numbers_in(find_weights(adapted)[0], adapted, {*seen, adapted})


def whole_weights(path: Path, run: Path, recipe: Recipe | None) -> dict[str, Tensor]:
    """The weights of a run that `path` holds: adapters are merged into what they adapt, here or in the run they began
    with.  Without a recipe, weights are what they are."""
    tensors = read_tensors(path)
    if recipe is None:
        return tensors
    if path.name == ADAPTER:
        origin = Origin.read(run)
        if origin is None:
            raise RunError(f"{path} holds adapters, but {run} has no origin.json to say what they adapt; copy it again")
        model = recipe.build_model()
        take_weights(model, origin.find(run))
        tensors = {**weights_of(model), **tensors}
    return merged(tensors, recipe.lora.scale)


def inner_names(names: Collection[str]) -> dict[str, str]:
    """The names of a reader's weights as the reader itself has them, and as they are found here."""
    prefix = READER if is_wrapped(names) else ""
    return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}


def is_wrapped(names: Collection[str]) -> bool:
    return any(name.startswith(READER) for name in names)


def parts(names: Collection[str]) -> str:
    return ", ".join(sorted({name.removeprefix(READER).split(".")[0] for name in names}))
