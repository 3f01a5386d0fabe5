"""How far below the top of its stack a weight is: which weights learn, and how fast, when a model is fine-tuned."""

import re
from collections.abc import Collection, Iterable

from torch import nn

from regard.errors import ConfigError

READER = "reader."  # a task's head calls what it reads off so
# What comes before the first layer, by a part of its name; what has neither such a part nor a number comes after the
# last layer: norms and heads.
INPUTS = {"embedding", "embedding_norm", "segment", "position", "source_position", "target_position", "source_inputs"}
INPUTS |= {"stem", "widen", "unknown"}
NUMBERED = re.compile(r"^(.*?)\.(\d+)\.")  # the list of layers, and which of them


def depths(names: Iterable[str]) -> dict[str, int]:
    """0 after the last layer, 1 in the last layer, 2 in that before it ...; the embeddings are below the first.

    Every list of layers, such as an encoder and a decoder, is counted from its own top.
    """
    layers: dict[str, tuple[str, int] | None] = {}  # None: before the first layer
    n_layers: dict[str, int] = {}
    after_all = ("", 0)
    for name in names:
        numbered = NUMBERED.match(name)
        if INPUTS & set(name.split(".")):
            layers[name] = None
        elif numbered:
            stack, number = numbered[1], int(numbered[2])
            layers[name] = stack, number
            n_layers[stack] = max(n_layers.get(stack, 0), number + 1)
        else:
            layers[name] = after_all
    deepest = max(n_layers.values(), default=0) + 1
    n_layers[""] = 0
    return {name: deepest if place is None else n_layers[place[0]] - place[1] for name, place in layers.items()}


def is_inside_a_layer(name: str) -> bool:
    """Whether a weight is what a layer multiplies its rows with: neither a table that is looked up, nor a head."""
    return name.split(".")[-1].startswith("weight") and not INPUTS & set(name.split(".")) and bool(NUMBERED.match(name))


def freeze(model: nn.Module, frozen: Collection[str], last_layers: int, new: Collection[str]) -> None:
    """Weights of the named parts, and those below the last layers, do not learn.  New ones learn wherever they are."""
    weights = dict(model.named_parameters())
    inner = {name: name.removeprefix(READER) for name in weights}
    for part in frozen:
        if not any(is_part(part, name) for name in inner.values()):
            parts = ", ".join(dict.fromkeys(name.split(".")[0] for name in inner.values()))
            raise ConfigError(f"training.frozen: the model has no part {part!r}; its parts are: {parts}")
    depth = depths(weights)
    for name, weight in weights.items():
        is_named = any(is_part(part, inner[name]) for part in frozen)
        is_below = last_layers > 0 and depth[name] > last_layers
        if name not in new and (is_named or is_below):
            weight.requires_grad = False
    if not any(weight.requires_grad for weight in weights.values()):
        raise ConfigError("training.frozen leaves nothing that learns")


def is_part(part: str, name: str) -> bool:
    """Whether a weight is of the part "blocks.0": "blocks.0.norm.weight" is, "blocks.01.norm.weight" is not."""
    return f"{name}.".startswith(f"{part}.")
