"""Pictures (PNG) for papers and READMEs: attention maps and position encodings.

Words are drawn as text, never as formulas, and nothing touches pyplot's global state.
"""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.image import AxesImage

from regard.errors import RegardError
from regard.viewer.encodings import PositionTable
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import Map, MapSet, visible
from regard.viewer.style import LETTERS, LIGHT, LONGEST_LABEL, Drawing, Style, blank, fonts, note, plain, shown

HUES = {  # middle and strongest color of each kind on light paper, as on the page
    "encoder": ("#3d66d8", "#15245e"),
    "decoder": ("#11806a", "#06362d"),
    "cross": ("#bd5012", "#571f04"),
    "self": ("#7d49c6", "#331363"),
    "steps": ("#7d49c6", "#331363"),
    "rollout": ("#8a5a00", "#3a2400"),
    "votes": ("#b03a6f", "#4d0f2b"),
    "ballots": ("#7a7412", "#332f00"),
    **dict.fromkeys(("across", "past", "future", "patches", "columns"), ("#3d66d8", "#15245e")),
    "query": ("#bd5012", "#571f04"),
    "content": ("#7d49c6", "#331363"),
    "gates": ("#11806a", "#06362d"),
    "forget": ("#bd5012", "#571f04"),
    "reset": ("#bd5012", "#571f04"),
    "update": ("#11806a", "#06362d"),
    "output": ("#7d49c6", "#331363"),
}  # what is signed goes from brown through white to blue
SIGNED = ("#b4552d", "#3d66d8")  # the ends of what has a sign; 0 is the paper
LIFTED = 0.65  # on dark paper the strongest color is the middle one with so much white
LETTER = 0.095  # inches of a letter of a title, rather more than less
MOST_LABELS = 80  # on one axis; of more words every n-th is named


def attention(map: Map, path: Drawing, style: Style = LIGHT, below: str = "") -> None:
    """One map with its words: a row looks, a column is looked at; `below` it, what there is to say."""
    n_queries, n_keys = map.weights.shape
    square = min(0.36, 11 / max(n_queries, n_keys))  # inches
    longest = max(len(visible(word)) for word in (*map.queries, *map.keys)[: 2 * MOST_LABELS])
    labels = 0.1 * min(longest, LONGEST_LABEL) + 0.3
    width = max(square * n_keys + labels + 1.1, 3.2)
    title = textwrap.wrap(map.name, int(width / LETTER))
    lines = textwrap.wrap(below, int(LETTERS * width))
    figure = blank(width, square * n_queries + labels + 0.7 + 0.2 * len(title) + 0.15 * len(lines), style)
    axes = figure.add_subplot()
    image = heat(axes, map, style)
    name_words(axes, map, style)
    figure.suptitle("\n".join(title), fontsize=11, color=style.ink, x=0.02, ha="left")
    note(figure, below, style)
    figures = "{:+.2g}" if KINDS[map.kind].is_signed else "{:.0%}"
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=18, pad=0.03, format=lambda x, _: figures.format(x))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=style.soft, length=0)
    figure.savefig(path, format="png")


def grid(capture: MapSet, path: Drawing, kind: str, style: Style = LIGHT) -> None:
    """Every head of every layer, small: layers downwards, heads across, each shaded to its own strongest."""
    layers, heads = capture.layers(kind), capture.heads(kind)
    maps = {(map.layer, map.head): map for map in capture.maps if map.kind == kind}
    if not maps:
        raise RegardError(f"no {kind!r} attention was captured; there is: {', '.join(capture.kinds)}")
    shape = next(iter(maps.values())).weights.shape
    side = min(1.5, 14 / len(heads))
    tall = side * min(max(shape[0] / shape[1], 0.4), 2.5)
    figure = blank(side * len(heads) + 0.8, tall * len(layers) + 1.0, style)
    table = figure.subplots(len(layers), len(heads), squeeze=False)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = table[row, column]
            axes.set_xticks([])
            axes.set_yticks([])
            plain(axes, style)
            if (layer, head) in maps:
                heat(axes, maps[layer, head], style)
            if row == 0:
                axes.set_title(f"head {head}", fontsize=9, color=style.soft)
            if column == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=9, color=style.soft)
    figure.suptitle(KINDS[kind].title, fontsize=12, color=style.ink)
    figure.savefig(path, format="png")


def positions(tables: list[PositionTable], path: Drawing, style: Style = LIGHT) -> None:
    """Position encodings side by side, each shaded to its own strongest number; angles go round."""
    figure = blank(7.2 * len(tables), 6.2, style)
    for axes, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
        n_rows, n_columns = table.values.shape
        top = 2 * np.pi if table.is_angle else float(np.abs(table.values).max()) or 1.0
        left = table.first_column - 0.5
        image = axes.imshow(
            table.values,
            cmap="twilight" if table.is_angle else signed_colors(style),
            vmin=0 if table.is_angle else -top,
            vmax=top,
            extent=(left, left + n_columns, n_rows - 0.5, -0.5),
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_xlabel(table.columns, color=style.ink)
        axes.set_ylabel(table.rows, color=style.ink)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_title(table.title, fontsize=11, color=style.ink, loc="left", wrap=True)
        plain(axes, style)
        bar = figure.colorbar(image, ax=axes, pad=0.02, aspect=30)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8, colors=style.soft, length=0)
    figure.savefig(path, format="png")


def heat(axes: Axes, map: Map, style: Style = LIGHT, turned: bool = False, top: float | None = None) -> AxesImage:
    """The image, shaded to `top` (None: as its kind is); turned, the queries are columns."""
    is_signed = KINDS[map.kind].is_signed
    top = strongest([map]) if top is None else top
    colors = signed_colors(style) if is_signed else hues(map.kind, style)
    smooth = "antialiased" if max(map.weights.shape) > 400 else "nearest"
    lowest = -top if is_signed else 0
    weights = map.weights.T if turned else map.weights
    return axes.imshow(weights, cmap=colors, vmin=lowest, vmax=top, aspect="auto", interpolation=smooth)


def strongest(maps: Sequence[Map]) -> float:
    """What maps of one kind are shaded to: their strongest weight; gates, and what else is at most 1, to 1."""
    largest = max(float(np.abs(map.weights).max()) for map in maps)
    return max(largest, 1.0) if KINDS[maps[0].kind].to_one else largest or 1.0


def hues(kind: str, style: Style) -> LinearSegmentedColormap:
    """From the paper, which is nothing, to what stands out from it most."""
    middle, strongest = HUES[kind]
    if style.is_dark:
        strongest = lifted(middle)
    return LinearSegmentedColormap.from_list(kind, [style.paper, middle, strongest])


def signed_colors(style: Style) -> LinearSegmentedColormap:
    below, above = (lifted(end, 0.3) if style.is_dark else end for end in SIGNED)
    return LinearSegmentedColormap.from_list("signed", [below, style.paper, above])


def lifted(color: str, share: float = LIFTED) -> str:
    """With so much white in it."""
    return to_hex([channel + share * (1 - channel) for channel in to_rgb(color)])


def name_words(axes: Axes, map: Map, style: Style) -> None:
    """Words on both axes, and a thin line between the squares while they are few."""
    n_queries, n_keys = map.weights.shape
    for axis, words in ((axes.yaxis, map.queries), (axes.xaxis, map.keys)):
        step = -(-len(words) // MOST_LABELS)
        axis.set_ticks(
            range(0, len(words), step),
            [shown(word) for word in words[::step]],
            parse_math=False,
            fontfamily=list(fonts()),
            fontsize=10 if len(words) <= 40 else 7,
            color=style.ink,
        )
    axes.xaxis.tick_top()
    for label in axes.get_xticklabels():
        label.set(rotation=55, ha="left", va="bottom", rotation_mode="anchor")
    if max(n_queries, n_keys) <= MOST_LABELS:
        axes.set_xticks(np.arange(-0.5, n_keys), minor=True)
        axes.set_yticks(np.arange(-0.5, n_queries), minor=True)
        axes.grid(which="minor", color=style.paper, linewidth=1)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_color(style.rule)
