"""Pictures (PNG) of figures side by side: the rungs of the ladder, how they learned, how far gradients reach, and how
large they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from regard.viewer.style import LIGHT, Drawing, Style, blank, legend, note, plain

DASHES = ("-", "--", ":")
LARGEST = 1e200  # that is drawn: with margins and ticks, an axis has to stay within the range of floats


@dataclass(frozen=True)
class Panel:
    """One figure of every row."""

    title: str
    values: list[float]
    logarithmic: bool = False


def bars(
    names: list[str],
    panels: list[Panel],
    title: str,
    path: Drawing,
    places: Sequence[int] = (),
    caption: str = "",
    style: Style = LIGHT,
) -> None:
    """A row of bars for each name, the first at the top, and a panel beside the other for each figure.

    A name has the color of its place among `places`, as a line of `losses` has; the caption, under the picture, says
    how to read it.
    """
    figure = blank(2.6 * len(panels) + 1.8, 0.36 * len(names) + 1.5, style)
    colors = [line_of(place, style)[0] for place in places] or style.lines[0]
    table = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(table, panels, strict=True):
        axes.barh(range(len(names)), panel.values, color=colors, height=0.62, zorder=2)
        if panel.logarithmic and min(panel.values) > 0:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())
        for place, value in enumerate(panel.values):
            axes.annotate(
                short(value),
                (value, place),
                (3, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=style.ink,
            )
        axes.set_title(panel.title, fontsize=10, color=style.ink, loc="left")
        axes.grid(axis="x", color=style.rule, linewidth=0.6)
        axes.margins(x=0.45)  # room for the figures
        plain(axes, style)
    table[0].set_yticks(range(len(names)), names, fontsize=9, color=style.ink)
    table[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(title, fontsize=11, color=style.ink)
    if caption:
        note(figure, caption, style)
    figure.savefig(path, format="png")


def short(value: float) -> str:
    """Three digits that matter: 1.46, 23.1, 801,234."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def reach(curves: dict[str, np.ndarray], path: Drawing, what: str = "|∂L/∂h|", style: Style = LIGHT) -> None:
    """|∂L/∂h_{T-d}|, or another norm, by distance d as a share of distance 0, a line a name, on a logarithmic scale."""
    figure = blank(7.6, 4.6, style)
    axes = figure.add_subplot()
    for number, (name, shares) in enumerate(curves.items()):
        color, dashes = line_of(number, style)
        places = np.flatnonzero((shares > 0) & (shares < LARGEST))  # a logarithmic scale has no zero
        axes.plot(places, shares[places], dashes, color=color, linewidth=1.4, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("distance d, in tokens", color=style.soft)
    axes.set_title(f"{what} at distance d, as a share of distance 0", fontsize=11, color=style.ink, loc="left")
    axes.grid(color=style.rule, linewidth=0.6)
    legend(axes, style, place="best")
    plain(axes, style)
    figure.savefig(path, format="png")


def line_of(number: int, style: Style) -> tuple[str, str]:
    """A color for each of several lines, and other dashes once the colors are used up."""
    return style.lines[number % len(style.lines)], DASHES[number // len(style.lines) % len(DASHES)]


@dataclass(frozen=True)
class NormCurve:
    """|∂L/∂w| of each step, before clipping."""

    steps: list[int]
    norms: list[float]
    clip: float  # the largest that the run let pass; 0: any
    n_left: int  # steps that its recipe has and that were not trained: it goes on, or it was ended

    @property
    def n_steps(self) -> str:
        """ "80", or "2 of 80" """
        return f"{len(self.steps):,}" + (f" of {self.steps[-1] + self.n_left:,}" if self.n_left else "")


def norms(curves: dict[str, NormCurve], path: Drawing, style: Style = LIGHT) -> None:
    """One line a name, on a logarithmic scale; dotted, where it was clipped to; a cross where a run ended early."""
    figure = blank(7.6, 4.6, style)
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        color, dashes = line_of(number, style)
        label = f"{name}, {f'clipped to {curve.clip:g}' if curve.clip else 'not clipped'}"
        if curve.n_left:
            label += f", {curve.n_steps} steps"
            axes.plot(curve.steps[-1], curve.norms[-1], "X", color=color, markersize=7)
        axes.plot(curve.steps, curve.norms, dashes, color=color, linewidth=1.0, label=label)
        if curve.clip:
            axes.axhline(curve.clip, color=color, linewidth=1.2, linestyle=":")
    axes.set_yscale("log")
    axes.set_xlabel("step", color=style.soft)
    axes.set_title("norm of the gradient before clipping", fontsize=11, color=style.ink, loc="left")
    axes.grid(color=style.rule, linewidth=0.6)
    legend(axes, style, place="best")
    plain(axes, style)
    figure.savefig(path, format="png")


def losses(
    curves: dict[str, list[tuple[int, float]]], path: Drawing, style: Style = LIGHT, places: Sequence[int] = ()
) -> None:
    """The validation loss by tokens trained on, a line a name, colored by its place; the mark is where the loss was
    lowest."""
    figure = blank(7.6, 4.6, style)
    axes = figure.add_subplot()
    for place, (name, curve) in zip(places or range(len(curves)), curves.items(), strict=True):
        color, dashes = line_of(place, style)
        axes.plot(*zip(*curve, strict=True), dashes, color=color, linewidth=1.4, label=name)
        axes.plot(*min(curve, key=lambda point: point[1]), "o", color=color, markersize=4)
    axes.set_xscale("log")
    places = [place for curve in curves.values() for place, _ in curve]
    is_wide = max(places) > 1000 * min(places)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("tokens trained on (k: thousand, M: million), logarithmic; dots: the best", color=style.soft)
    axes.set_title("validation loss, nats a token", fontsize=11, color=style.ink, loc="left")
    axes.grid(color=style.rule, linewidth=0.6)
    legend(axes, style, place="best")
    plain(axes, style)
    figure.savefig(path, format="png")
