"""How every picture (PNG) looks: paper, ink, colors of several things, fonts, and words that are only text."""

import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font

from regard.viewer.map_set import visible

Drawing = str | Path | BinaryIO  # where a picture is written


@dataclass(frozen=True, kw_only=True)
class Style:
    paper: str
    ink: str  # of words
    soft: str  # of words that matter less
    rule: str  # of grids and frames
    lines: tuple[str, ...]  # of several things, in this order
    is_dark: bool = False


LIGHT = Style(
    paper="#ffffff",
    ink="#1f1d1b",
    soft="#6b6660",
    rule="#e5e0d8",
    lines=("#3d66d8", "#cc5a16", "#11806a", "#7d49c6", "#b03a6f", "#7a7412", "#1f1d1b", "#6b6660", "#0b7a99"),
)
DARK = Style(
    paper="#16181d",
    ink="#eceae6",
    soft="#a5a29c",
    rule="#34373e",
    lines=("#86a5ff", "#f29a5c", "#4cc2a6", "#bd95f5", "#ee82b0", "#cfc75a", "#eceae6", "#a5a29c", "#5fc8e8"),
    is_dark=True,
)
INK, SOFT, RULE, LINES = LIGHT.ink, LIGHT.soft, LIGHT.rule, LIGHT.lines
# matplotlib always brings the first; the others add scripts where the machine has them.
FAMILIES = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Sans Symbols2",
)
LONGEST_LABEL = 18
DOTS = 160  # per inch
LETTERS = 15  # of a note, per inch


def shown(word: str) -> str:
    label = drawable(visible(word))
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def drawable(label: str) -> str:
    """matplotlib warns of letters that its fonts lack: a box for every character that no installed font has."""
    return "".join(character if has(character) else "□" for character in label)


@cache
def has(character: str) -> bool:
    return any(font.get_char_index(ord(character)) for font in fonts().values())


@cache
def fonts() -> dict[str, FT2Font]:
    """The families of our list that are installed, in its order: the very files that matplotlib will draw with."""
    installed = set(font_manager.get_font_names())
    return {name: font_manager.get_font(font_manager.findfont(name)) for name in FAMILIES if name in installed}


def blank(width: float, height: float, style: Style = LIGHT) -> Figure:
    figure = Figure(figsize=(width, height), dpi=DOTS, layout="constrained", facecolor=style.paper)
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Axes, style: Style = LIGHT) -> None:
    axes.set_facecolor(style.paper)
    axes.tick_params(which="both", colors=style.soft, labelsize=8, length=0)
    for spine in axes.spines.values():
        spine.set_color(style.rule)


def legend(axes: Axes, style: Style = LIGHT, n_above: int = 0, place: str = "upper right") -> None:
    """Inside, at a place that matplotlib names; with `n_above`, above the picture, so many side by side."""
    where = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": n_above} if n_above else {"loc": place}
    axes.legend(frameon=False, labelcolor=style.ink, prop={"family": list(fonts()), "size": 8.5}, **where)


def note(figure: Figure, text: str, style: Style = LIGHT) -> None:
    """A line under the picture that says how to read it."""
    if text:
        lines = textwrap.fill(text, int(LETTERS * figure.get_figwidth()))
        figure.supxlabel(lines, fontsize=8, color=style.soft, x=0.01, ha="left", parse_math=False, family=list(fonts()))
