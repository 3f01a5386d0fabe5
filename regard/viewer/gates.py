"""A recurrent net at work: its gates, candidates and states over a text, as tables."""

from collections.abc import Collection
from functools import partial

import torch

from regard.models.interface import Model
from regard.nn.layout import Ragged
from regard.nn.watch import CellSighting, watch_cells
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map

GATES = ("forget", "reset", "update", "output")  # between 0 and 1


@torch.no_grad()
def look_at_gates(
    model: Model,
    words: list[str],
    ids: list[int],
    title: str,
    layers: Collection[int] | None,
    directions: Collection[int] | None,
) -> Capture:
    """Each part of each layer as words by units, and of the gates the mean over the units."""
    cells = [
        place
        for place in model.cells()
        if (layers is None or place[0] in layers) and (directions is None or place[1] in directions)
    ]
    with watch_cells(cells) as seen:
        model(torch.tensor(ids, device=model.device), Ragged([len(ids)], model.device))
    return Capture(title=title, maps=[map for sighting in seen for map in maps_of(sighting, words)])


def maps_of(sighting: CellSighting, words: list[str]) -> list[Map]:
    """In the order of the text, also of a layer that read it from right to left."""
    new = partial(Map, layer=sighting.layer, head=sighting.direction, queries=words)
    ordered = {name: part.flip(1) if sighting.direction else part for name, part in sighting.parts.items()}
    parts = {name: part[0].float().cpu().numpy() for name, part in ordered.items()}
    units = [f"unit {i}" for i in range(parts["hidden"].shape[1])]
    maps = [new(kind=name, keys=units, weights=part) for name, part in parts.items()]
    gates = [name for name in GATES if name in parts]
    if gates:
        means = torch.stack([ordered[name][0].float().mean(-1) for name in gates], -1).cpu().numpy()
        maps.insert(0, new(kind="gates", keys=gates, weights=means))
    return maps
