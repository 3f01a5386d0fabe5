"""One picture (PNG) of all gates and states of a recurrent net over a text."""

from regard.errors import RegardError
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import MapSet
from regard.viewer.picture import heat, strongest
from regard.viewer.style import LIGHT, Drawing, Style, blank, fonts, note, plain, shown

WIDEST = 5.0  # inches of one part
WORD = 0.125  # inches that a word takes at least; of more words every n-th is named


def draw_gates(capture: MapSet, path: Drawing, style: Style = LIGHT) -> None:
    """Every gate and state: layers and directions downwards, parts across; in each, words across, units downwards."""
    kinds = [kind for kind in capture.kinds if KINDS[kind].has_units]
    if not kinds:
        raise RegardError(f"no gates or states were captured; there is: {', '.join(capture.kinds)}")
    places = [(layer, way) for layer in capture.layers("hidden") for way in capture.heads("hidden")]
    words = [shown(word) for word in capture.pick("hidden").queries]
    wide = min(max(0.2 * len(words), 1.6), WIDEST)
    figure = blank(wide * len(kinds) + 0.8, 2.4 * len(places) + 2.2, style)
    table = figure.subplots(len(places), len(kinds), squeeze=False, sharex=True)
    for column, kind in zip(table.T, kinds, strict=True):
        maps = [capture.pick(kind, layer, way) for layer, way in places]
        top = strongest(maps)
        for axes, map in zip(column, maps, strict=True):
            image = heat(axes, map, style, turned=True, top=top)
            axes.set_yticks([])
            plain(axes, style)
        column[0].set_title(KINDS[kind].title, fontsize=10, color=style.ink)
        ticks = [-top, 0, top] if KINDS[kind].is_signed else [0, top]
        bar = figure.colorbar(image, ax=list(column), location="bottom", shrink=0.7, aspect=24, ticks=ticks)
        bar.ax.set_xticklabels([f"{tick:.3g}" for tick in ticks])
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8, colors=style.soft, length=0)
    for row, (layer, way) in zip(table, places, strict=True):
        n_units = len(capture.pick("hidden", layer, way).keys)
        row[0].set_ylabel(f"layer {layer} {'←' if way else '→'}, {n_units} units", color=style.soft)
    step = -(-len(words) // int(wide / WORD))
    for axes in table[-1]:
        places_named = range(0, len(words), step)
        axes.set_xticks(places_named, words[::step], rotation=90, fontsize=8, parse_math=False, family=list(fonts()))
    note(figure, how_to_read(kinds), style)
    figure.savefig(path, format="png")


def how_to_read(kinds: list[str]) -> str:
    """Of the kinds of units that are in the picture."""
    has_gates = any(not KINDS[kind].is_signed for kind in kinds)
    signed = "candidates and states go" if "candidate" in kinds else "states go"
    sentences = ["A column is a word, a row is a unit."]
    if has_gates:
        sentences.append("Gates go from closed (0, the paper) to open (1).")
    sentences.append(f"{signed.capitalize()} from brown (negative) through the paper (0) to blue (positive).")
    if "cell" in kinds:
        sentences.append("The cell state is shaded to its strongest number.")
    return " ".join(sentences)
