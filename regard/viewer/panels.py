"""Pictures (PNG) of images: where a model looks on one, and what training makes of several."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.viewer.map_set import Map, MapSet, visible
from regard.viewer.pictured import HUE, Pictured
from regard.viewer.style import INK, LIGHT, SOFT, Drawing, Style, blank, drawable, fonts, plain, shown
from regard.viewer.terminal import share

N_ACROSS = 6  # panels of words beside each other
LARGE, SMALL = 3.6, 1.9  # inches of a panel's side
LONGEST_NAME = 28
HOW = "Each patch is lit by its own weight, as a share of the strongest."


def draw_looks(capture: MapSet, map: Map, path: Drawing, style: Style = LIGHT) -> None:
    """The image, beside it the image as one patch or the class row looks at it, or one panel for each word."""
    image, looks = pictured(capture), capture.looks(map)
    side = LARGE if len(looks) == 1 else SMALL
    panels = [("", image.colors, ""), *((name, image.lit(w), strongest(image, w)) for name, w in looks)]
    n_across = min(len(panels), N_ACROSS)
    n_down = -(-len(panels) // n_across)
    figure = blank(side * n_across + 0.4, (side * ratio(image) + 0.5) * n_down + 0.8, style)
    table = figure.subplots(n_down, n_across, squeeze=False).flatten()
    for axes, (name, pixels, note) in zip(table, panels, strict=False):
        put(axes, pixels, style)
        axes.set_xlabel(note, fontsize=8, color=style.soft)
        axes.set_title(shown(name) if name else " ", fontsize=10, color=style.ink, **words())
    for axes in table[len(panels) :]:
        axes.set_axis_off()
    if len(looks) == 1 and capture.query is not None:
        for axes in table[:2]:
            outline(axes, image, capture.query)
    caption(figure, capture.title, f"{map.name}. {HOW}", style)
    figure.savefig(path, format="png")


def draw_heads(capture: MapSet, path: Drawing, kind: str, style: Style = LIGHT) -> None:
    """Every head of every layer, small: layers downwards, heads across, each lit by its own strongest patch."""
    image, layers, heads = pictured(capture), capture.layers(kind), capture.heads(kind)
    maps = {(map.layer, map.head): map for map in capture.maps if map.kind == kind}
    whose, _ = capture.look_of(capture.pick(kind))
    side = min(1.5, 14 / len(heads))
    figure = blank(side * len(heads) + 0.8, side * ratio(image) * len(layers) + 1.2, style)
    table = figure.subplots(len(layers), len(heads), squeeze=False)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = table[row, column]
            put(axes, image.lit(capture.look_of(maps[layer, head])[1]) if (layer, head) in maps else None, style)
            if row == 0:
                axes.set_title(f"head {head}", fontsize=9, color=style.soft)
            if column == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=9, color=style.soft)
    caption(figure, capture.title, f"{capture.about(kind).title}: {whose}. {HOW}", style)
    figure.savefig(path, format="png")


def draw_sheet(headings: list[str], names: list[str], rows: Sequence[Sequence[np.ndarray]], path: Drawing) -> None:
    """Images (H, W, C) in a table."""
    tall = max(row[0].shape[0] / row[0].shape[1] for row in rows)
    figure = blank(1.3 * len(headings) + 0.2, (1.3 * min(tall, 2.0) + 0.3) * len(rows) + 0.4)
    table = figure.subplots(len(rows), len(headings), squeeze=False)
    for name, row, across in zip(names, rows, table, strict=True):
        for axes, pixels in zip(across, row, strict=True):
            put(axes, np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
        end = drawable(visible(name))
        label = end if len(end) <= LONGEST_NAME else "…" + end[1 - LONGEST_NAME :]
        across[0].set_xlabel(label, fontsize=6, color=SOFT, **words())
    for axes, heading in zip(table[0], headings, strict=True):
        axes.set_title(heading, fontsize=9, color=INK)
    figure.savefig(path, format="png")


def pictured(capture: MapSet) -> Pictured:
    assert capture.image is not None, "this capture is of a text"
    return capture.image


def ratio(image: Pictured) -> float:
    """Height to width."""
    return image.pixels.shape[0] / image.pixels.shape[1]


def strongest(image: Pictured, weights: np.ndarray) -> str:
    """ "strongest 2,3 12%, [CLASS] 8%": how much the brightest patch stands for, and what no patch shows."""
    return "strongest " + ", ".join(f"{name} {share(weight)}" for name, weight in image.strongest(weights, 1))


def put(axes: Axes, pixels: np.ndarray | None, style: Style = LIGHT) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    plain(axes, style)
    if pixels is not None:
        axes.imshow(pixels, interpolation="nearest")


def outline(axes: Axes, image: Pictured, place: int) -> None:
    """A frame around the patch that looks."""
    square = image.square(place)
    if square is not None:
        corner, color = (square[1].start - 0.5, square[0].start - 0.5), tuple(channel / 255 for channel in HUE)
        axes.add_patch(Rectangle(corner, image.patch, image.patch, fill=False, edgecolor=color, linewidth=1.5))


def caption(figure: Figure, title: str, note: str, style: Style) -> None:
    figure.suptitle(drawable(visible(title)), fontsize=11, color=style.ink, wrap=True, **words())
    figure.supxlabel(note, fontsize=8, color=style.soft, wrap=True)


def words() -> dict[str, object]:
    """How text of others is drawn: never as a formula."""
    return {"parse_math": False, "fontfamily": list(fonts())}
