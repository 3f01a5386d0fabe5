"""One picture (PNG) of all gates and states of a recurrent net over a text."""

from regard.errors import RegardError
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import MapSet
from regard.viewer.picture import heat
from regard.viewer.style import LIGHT, Drawing, Style, blank, fonts, plain, shown


def draw_gates(capture: MapSet, path: Drawing, style: Style = LIGHT) -> None:
    """Every gate and state: layers and directions downwards, parts across; in each, words across and units downwards.

    Gates go from the paper (closed) to their hue (open); what has a sign from brown through the paper to blue.
    """
    kinds = [kind for kind in capture.kinds if KINDS[kind].has_units]
    if not kinds:
        raise RegardError(f"no gates or states were captured; there is: {', '.join(capture.kinds)}")
    places = [(layer, way) for layer in capture.layers("hidden") for way in capture.heads("hidden")]
    words = [shown(word) for word in capture.pick("hidden").queries]
    wide = min(max(0.2 * len(words), 1.6), 5.0)
    figure = blank(wide * len(kinds) + 0.8, 2.4 * len(places) + 1.4, style)
    table = figure.subplots(len(places), len(kinds), squeeze=False, sharex=True)
    for row, (layer, way) in zip(table, places, strict=True):
        for axes, kind in zip(row, kinds, strict=True):
            heat(axes, capture.pick(kind, layer, way), style, turned=True)
            axes.set_yticks([])
            plain(axes, style)
        arrow = "←" if way else "→"
        row[0].set_ylabel(
            f"layer {layer} {arrow}, {len(capture.pick('hidden', layer, way).keys)} units", color=style.soft
        )
    for axes, kind in zip(table[0], kinds, strict=True):
        axes.set_title(KINDS[kind].title, fontsize=10, color=style.ink)
    for axes in table[-1]:
        axes.set_xticks(range(len(words)), words, rotation=90, fontsize=8, parse_math=False, family=list(fonts()))
    figure.savefig(path, format="png")
