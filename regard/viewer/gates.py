"""A recurrent net at work: its gates, candidates and states over a text, as tables and in one picture."""

from collections.abc import Collection
from functools import partial
from pathlib import Path

import torch

from regard.errors import RegardError
from regard.models.interface import Model
from regard.nn.layout import Ragged
from regard.nn.watch import CellSighting, watch_cells
from regard.viewer.capture import Capture, Map
from regard.viewer.kinds import KINDS
from regard.viewer.picture import INK, SOFT, blank, fonts, heat, plain, shown

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


def draw_gates(capture: Capture, path: str | Path) -> None:
    """Every gate and state: layers and directions downwards, parts across; in each, words across and units downwards.

    Gates go from white (closed) to their hue (open); what has a sign from brown through white to blue.
    """
    kinds = [kind for kind in capture.kinds if KINDS[kind].has_units]
    if not kinds:
        raise RegardError(f"no gates or states were captured; there is: {', '.join(capture.kinds)}")
    places = [(layer, way) for layer in capture.layers("hidden") for way in capture.heads("hidden")]
    words = [shown(word) for word in capture.pick("hidden").queries]
    wide = min(max(0.2 * len(words), 1.6), 5.0)
    figure = blank(wide * len(kinds) + 0.8, 2.4 * len(places) + 1.4)
    table = figure.subplots(len(places), len(kinds), squeeze=False, sharex=True)
    for row, (layer, way) in zip(table, places, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            heat(axes, capture.pick(kind, layer, way), turned=True)
            axes.set_yticks([])
            plain(axes)
        arrow = "←" if way else "→"
        row[0].set_ylabel(f"layer {layer} {arrow}, {len(capture.pick('hidden', layer, way).keys)} units", color=SOFT)
    for axes, kind in zip(table[0], kinds, strict=True):
        axes.set_title(KINDS[kind].title, fontsize=10, color=INK)
    for axes in table[-1]:
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=8, parse_math=False, family=list(fonts()))
    figure.savefig(path, format="png")
