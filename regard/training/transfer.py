"""Weights of another run as a beginning: all of an equal model, or only its reader, under another task."""

from collections.abc import Collection
from pathlib import Path

from torch import nn

from regard.errors import RunError
from regard.training.checkpoints import find_weights
from regard.training.weights import read_tensors, set_weights, weights_of

READER = "reader."  # what a task wraps has these names; a model that no task wraps is a reader as a whole


def take_weights(model: nn.Module, run: Path) -> str:
    """Give the model all weights of the run's reader, and those of the rest that fit.  Returns what was taken and what
    begins anew, in words."""
    path, _ = find_weights(run)
    found, own = read_tensors(path), weights_of(model)
    there, here = inner_names(found), inner_names(own)
    taken = {here.get(name, name): found[there[name]] for name in there}
    heads = found.keys() - there.values()  # another task, or one of other labels, has others
    taken |= {name: found[name] for name in heads if name in own and found[name].shape == own[name].shape}
    new = own.keys() - taken.keys() if is_wrapped(own) else set()
    try:
        set_weights(model, {**{name: own[name] for name in new}, **taken}, str(path))
    except RunError as error:
        raise RunError(f"--from {run}: {error}; its model must have the shape of this recipe's [model]") from None
    return parts(taken) + (f"; new: {parts(new)}" if new else "")


def inner_names(names: Collection[str]) -> dict[str, str]:
    """The names of a reader's weights as the reader itself has them, and as they are found here."""
    prefix = READER if is_wrapped(names) else ""
    return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}


def is_wrapped(names: Collection[str]) -> bool:
    return any(name.startswith(READER) for name in names)


def parts(names: Collection[str]) -> str:
    return ", ".join(sorted({name.removeprefix(READER).split(".")[0] for name in names}))
