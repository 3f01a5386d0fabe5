"""Looking into a model while it works: `with watch(model) as seen: ...`.

Nothing is computed until somebody watches.  Then the weights of the asked layers and heads are made again from the
queries and keys that go by, while the answer still comes from the fast path.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.attention import Attend, GlobalAttention, Memory, MultiHeadAttention
from regard.nn.layout import Layout
from regard.nn.sight import Sight

Watchable = MultiHeadAttention | GlobalAttention


class Attending(Protocol):
    """A model that can be watched names its attention layers."""

    def attentions(self) -> Iterator[tuple[str, int, Watchable]]:
        """(kind, layer, module), kind being "encoder", "decoder", "cross" or "self"."""
        ...


@dataclass(frozen=True)
class Sighting:
    """One attention layer at work: how much each query looked at each key, for the asked heads."""

    kind: str
    layer: int
    heads: tuple[int, ...]
    weights: Tensor  # B, asked heads, Q, K
    queries: Tensor | None  # B, asked heads, Q, E; only with vectors=True, as are keys and values
    keys: Tensor | None
    values: Tensor | None
    error: float  # how far weights @ values is from what the fast path gave

    def head(self, head: int) -> Tensor:
        return self.weights[:, self.heads.index(head)]


@dataclass
class Seen:
    """All sightings of a watched stretch, in the order in which they happened."""

    sightings: list[Sighting] = field(default_factory=list)

    def of(self, kind: str, layer: int) -> Sighting:
        """The last sighting of one attention layer."""
        for sighting in reversed(self.sightings):
            if (sighting.kind, sighting.layer) == (kind, layer):
                return sighting
        known = ", ".join(sorted({f"{s.kind} {s.layer}" for s in self.sightings})) or "nothing"
        raise KeyError(f"no attention {kind} {layer} was seen; seen: {known}")


@contextmanager
def watch(
    model: Any,
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
    vectors: bool = False,
) -> Iterator[Seen]:
    """See the attention of a model's `layers` and `heads` (all when None), with their vectors on request.

    A compiled model is run by its eager twin as long as it is watched.
    """
    there = list(eager(model).attentions())
    refuse_unknown("layer", layers, max((layer + 1 for _, layer, _ in there), default=0))
    refuse_unknown("head", heads, max((module.n_heads for _, _, module in there), default=0))
    seen = Seen()
    hooks = [
        module.attend.register_forward_hook(partial(record, seen, kind, layer, module.n_heads, heads, vectors))
        for kind, layer, module in there
        if layers is None or layer in layers
    ]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def refuse_unknown(what: str, asked: Collection[int] | None, n: int) -> None:
    unknown = [one for one in asked or () if not 0 <= one < n]
    if unknown:
        raise RegardError(f"there is no {what} {unknown[0]}; the model has {n}, counted from 0")


def eager(model: Any) -> Attending:
    """The model itself, also when torch.compile has wrapped it."""
    return getattr(model, "_orig_mod", model)


def is_watched(model: Any) -> bool:
    return any(module.attend._forward_hooks for _, _, module in eager(model).attentions())


def record(
    seen: Seen,
    kind: str,
    layer: int,
    n_heads: int,
    heads: Collection[int] | None,
    vectors: bool,
    attend: nn.Module,
    inputs: tuple[Tensor, Layout, Memory, Sight],
    output: Tensor,
) -> None:
    assert isinstance(attend, Attend)
    queries, layout, memory, sight = inputs
    memory = memory.for_heads(n_heads)
    asked = tuple(h for h in range(n_heads) if heads is None or h in heads)
    with torch.no_grad():
        weights = attend.weights(queries, layout, memory, sight)  # B H Q K
        padded = [
            on.pad(x).transpose(1, 2)[:, asked].detach()
            for on, x in ((layout, queries), (memory.layout, memory.keys), (memory.layout, memory.values))
        ]
        mixed = weights[:, asked] @ padded[2]
        given = layout.pad(output).transpose(1, 2)[:, asked]
        real = layout.pad(torch.ones(output.shape[:-2], device=output.device))[:, None, :, None]
        error = float(((mixed - given) * real).abs().max()) if mixed.numel() else 0.0
    kept = padded if vectors else [None, None, None]
    seen.sightings.append(Sighting(kind, layer, asked, weights[:, asked].detach(), kept[0], kept[1], kept[2], error))
