"""Images in the terminal: two pixels a character, ▀ in the color of the upper on that of the lower.

Where there are no colors, as in pipes, each patch is a shade of how much it is looked at.
"""

import numpy as np
from PIL import Image
from rich.console import Console
from rich.text import Text

from regard.viewer.map_set import Map, MapSet
from regard.viewer.terminal import CELL, SHADES, share

WIDEST, OF_WORD = 64, 24  # columns of one picture, and of each where there is one for every word
GAP = 2  # columns between pictures
N_STRONGEST = 5
UPPER = "▀"


def show(capture: MapSet, map: Map, console: Console) -> None:
    """The image as one patch or the class row looks at it, or as each word does."""
    image, looks = capture.image, capture.looks(map)
    assert image is not None
    console.print(Text(map.name, style="bold"))
    console.print(Text(capture.about(map.kind).meaning, style="dim"))
    has_colors = console.color_system is not None and not console.no_color
    width = min(console.width, WIDEST if len(looks) == 1 else OF_WORD)
    pictures = [
        [
            heading(name, image.strongest(w, 1)[0], width),
            *(colored(image.lit(w), width) if has_colors else shaded(image.on_grid(w), width)),
        ]
        for name, w in looks
    ]
    n_across = max(1, (console.width + GAP) // (width + GAP))
    for start in range(0, len(pictures), n_across):
        console.print()
        for line in beside(pictures[start : start + n_across], width):
            console.print(line, no_wrap=True, crop=True)
    console.print()
    if not has_colors:
        console.print(Text(f"{SHADES[1]} little   {SHADES[-1]} the strongest patch of a picture"))
    if len(looks) == 1:
        best = [f"{name} {share(weight)}" for name, weight in image.strongest(looks[0][1], N_STRONGEST)]
        console.print(Text("   ".join(["row,column:", *best]), style="dim"))


def heading(name: str, strongest: tuple[str, float], width: int) -> Text:
    """Who looks, and the patch whose weight is the brightest of this picture."""
    note = f"  {strongest[0]} {share(strongest[1])}"
    text = Text(name, style="bold")
    text.truncate(max(1, width - len(note)), overflow="ellipsis")
    return text.append(note, style="dim")


def colored(pixels: np.ndarray, width: int) -> list[Text]:
    """The lines of an image (H, W, 3), as wide as it may be."""
    lines = []
    rows = fitted(pixels, width)
    for upper, lower in zip(rows[::2], [*rows[1::2], *[None] * (len(rows) % 2)], strict=True):
        line = Text()
        for column, color in enumerate(upper):
            below = "" if lower is None else f" on {code(lower[column])}"
            line.append(UPPER, style=code(color) + below)
        lines.append(line)
    return lines


def code(color: np.ndarray) -> str:
    return "#{:02x}{:02x}{:02x}".format(*color)


def fitted(pixels: np.ndarray, width: int) -> np.ndarray:
    """Enlarged by a whole number, pixels staying squares; or reduced, each pixel the mean of those it stands for."""
    height, own = pixels.shape[:2]
    if own <= width:
        return pixels.repeat(width // own, axis=0).repeat(width // own, axis=1)
    size = (width, max(1, round(height * width / own)))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))


def shaded(weights: np.ndarray, width: int) -> list[Text]:
    """The weights of the patches (rows, columns) as characters."""
    cell = CELL if CELL * weights.shape[1] <= width else 1
    shades = np.minimum(weights / (float(weights.max()) or 1.0) * len(SHADES), len(SHADES) - 1).astype(int)
    return [Text("".join(SHADES[shade] * cell for shade in row)) for row in shades]


def beside(pictures: list[list[Text]], width: int) -> list[Text]:
    """The lines of pictures that stand in one row."""
    lines = []
    for parts in zip(*pictures, strict=True):
        line = Text()
        for column, part in enumerate(parts):
            line.append(" " * (column * (width + GAP) - line.cell_len))
            line.append_text(part)
        lines.append(line)
    return lines
