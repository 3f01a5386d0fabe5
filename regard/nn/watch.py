"""Looking into a model while it works, `with watch(model) as seen: ...`, and switching off one of its heads.

Nothing is computed until a model is watched.  Then the weights of the chosen layers and heads are made again from the
queries and keys that go by, while the answer still comes from the fast path.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.nn.attention import Attend, Attention, Memory
from regard.nn.layout import Layout
from regard.nn.recurrent import Cell
from regard.nn.sight import Sight


class Watchable(Protocol):
    """A model that can be watched names its attention layers; one that torch.compile has wrapped passes the call on."""

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        """(kind, layer, module), kind being "encoder", "decoder", "cross" or "self"."""
        ...


@dataclass(frozen=True)
class Sighting:
    """One attention layer at work: how much each query looked at each key, for the chosen heads."""

    kind: str
    layer: int
    heads: tuple[int, ...]
    weights: Tensor  # B, chosen heads, Q, K
    queries: Tensor | None  # B, chosen heads, Q, E; only with vectors=True, as are keys and values
    keys: Tensor | None
    values: Tensor | None
    error: float  # how far weights @ values is from what the fast path gave

    def head(self, head: int) -> Tensor:
        return self.weights[:, self.heads.index(head)]

    def followed_by(self, later: "Sighting") -> "Sighting":
        """Both as one, where the same sequences were read in steps: the queries of the later after these."""
        queries = None if self.queries is None or later.queries is None else [self.queries, later.queries]
        return replace(
            self,
            weights=torch.cat([self.weights, later.weights], dim=2),
            queries=None if queries is None else torch.cat(queries, dim=2),
            error=max(self.error, later.error),
        )


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
    model: Watchable, layers: Collection[int] | None = None, heads: Collection[int] | None = None, vectors: bool = False
) -> Iterator[Seen]:
    """See the attention of a model's `layers` and `heads` (all when None), with their vectors on request.

    A compiled model is run by its eager twin as long as it is watched.
    """
    attentions = list(model.attentions())
    refuse_unknown("layer", layers, max((layer + 1 for _, layer, _ in attentions), default=0))
    refuse_unknown("head", heads, max((module.n_heads for _, _, module in attentions), default=0))
    seen = Seen()
    hooks = [
        module.attend.register_forward_hook(partial(record, seen, kind, layer, heads, vectors))
        for kind, layer, module in attentions
        if layers is None or layer in layers
    ]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def switched_off(model: Watchable, kind: str, layer: int, head: int) -> Iterator[None]:
    """The model without one head: its output is 0 before W_O (Michel et al. 2019, section 2.3)."""
    chosen = [module for *place, module in model.attentions() if place == [kind, layer]]
    if not chosen:
        raise RegardError(f"there is no attention {kind!r}, layer {layer} to switch off")
    refuse_unknown("head", [head], chosen[0].n_heads)

    def silence(attend: nn.Module, inputs: object, output: Tensor) -> Tensor:
        others = torch.arange(output.shape[-2], device=output.device) != head
        return output * others[:, None]  # rows H E

    hook = chosen[0].attend.register_forward_hook(silence)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        hook.remove()


@dataclass(frozen=True)
class CellSighting:
    """One recurrent layer at work: its gates, candidate and states at all steps, in the order in which it read."""

    layer: int
    direction: int  # 0 from left to right, 1 from right to left
    parts: dict[str, Tensor]  # B T M each
    error: float  # how far these hidden states are from what the fused kernel gave


@contextmanager
def watch_cells(cells: Iterable[tuple[int, int, Cell]]) -> Iterator[list[CellSighting]]:
    """See the gates and states of recurrent layers, made again by their equations from the inputs that go by."""
    seen: list[CellSighting] = []
    hooks = [cell.register_forward_hook(partial(record_cell, seen, layer, way)) for layer, way, cell in cells]
    try:
        with torch.compiler.set_stance("force_eager"):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def record_cell(
    seen: list[CellSighting],
    layer: int,
    direction: int,
    cell: nn.Module,
    inputs: tuple[Tensor, Tensor],
    output: tuple[Tensor, Tensor],
) -> None:
    assert isinstance(cell, Cell)
    with torch.no_grad():
        parts = cell.every_part(*inputs)
        error = float((parts["hidden"] - output[0]).abs().max())
    seen.append(CellSighting(layer, direction, parts, error))


def refuse_unknown(what: str, numbers: Collection[int] | None, n: int) -> None:
    unknown = [number for number in numbers or () if not 0 <= number < n]
    if unknown:
        raise RegardError(f"there is no {what} {unknown[0]}; the model has {n}, counted from 0")


def is_watched(model: Watchable) -> bool:
    return any(module.attend._forward_hooks for _, _, module in model.attentions())


def record(
    seen: Seen,
    kind: str,
    layer: int,
    heads: Collection[int] | None,
    vectors: bool,
    attend: nn.Module,
    inputs: tuple[Tensor, Layout, Memory, Sight],
    output: Tensor,
) -> None:
    assert isinstance(attend, Attend)
    queries, layout, memory, sight = inputs
    n_heads = queries.shape[-2]
    memory = memory.for_heads(n_heads)
    chosen = tuple(h for h in range(n_heads) if heads is None or h in heads)
    with torch.no_grad():
        weights = attend.weights(queries, layout, memory, sight)  # B H Q K
        padded = [
            rows_layout.pad(rows).transpose(1, 2)[:, chosen].detach()
            for rows_layout, rows in ((layout, queries), (memory.layout, memory.keys), (memory.layout, memory.values))
        ]
        mixed = weights[:, chosen] @ padded[2]
        fast = layout.pad(output).transpose(1, 2)[:, chosen]
        is_token = layout.pad(torch.ones(output.shape[:-2], device=output.device))[:, None, :, None]
        error = float(((mixed - fast) * is_token).abs().max()) if mixed.numel() else 0.0
    qkv = padded if vectors else [None] * 3
    sighting = Sighting(kind, layer, chosen, weights[:, chosen].detach(), qkv[0], qkv[1], qkv[2], error)
    seen.sightings.append(seen.sightings.pop().followed_by(sighting) if layout.continues else sighting)
