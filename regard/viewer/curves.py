"""A picture (PNG) of how a training went: loss, metric and learning rate over the steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.ticker import FuncFormatter, NullFormatter

from regard.viewer.style import LIGHT, Drawing, Style, blank, legend, note, plain

SMOOTHED = 100  # a point is the mean of this part of the curve
PLAIN = FuncFormatter(lambda value, _: f"{value:g}")  # 0.001 is not 0.00

StepValues = Sequence[tuple[int, float]]  # step, value


@dataclass(frozen=True)
class CurvePanel:
    title: str
    training: StepValues = ()
    validation: StepValues = ()
    is_smoothed: bool = False  # the training values are noisy
    logarithmic: bool = False


def draw_panels(panels: Sequence[CurvePanel], path: Drawing, style: Style = LIGHT) -> None:
    """Side by side.  Noisy values are faint, their running mean is drawn over them, and a note says over how many."""
    figure = blank(4.2 * len(panels), 3.4, style)
    widths = []
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        if panel.training:
            steps, values = zip(*panel.training, strict=True)
            width = max(1, len(values) // SMOOTHED) if panel.is_smoothed else 1
            if width > 1:
                widths.append(width)
                axes.plot(steps, values, color=style.lines[0], linewidth=0.6, alpha=0.3)
            axes.plot(steps, smooth(values, width), color=style.lines[0], linewidth=1.4, label="training")
        if panel.validation:
            axes.plot(
                *zip(*panel.validation, strict=True), "o-", color=style.lines[1], ms=3, lw=1.4, label="validation"
            )
        drawn = [value for _, value in (*panel.training, *panel.validation)]
        if panel.logarithmic and drawn and min(drawn) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(PLAIN)
            axes.yaxis.set_minor_formatter(PLAIN if max(drawn) < 10 * min(drawn) else NullFormatter())
        axes.set_title(panel.title, fontsize=10, color=style.ink, loc="left")
        axes.set_xlabel("step", fontsize=9, color=style.soft)
        axes.grid(color=style.rule, linewidth=0.6)
        if panel.training and panel.validation:
            legend(axes, style)
        plain(axes, style)
    if widths:
        note(figure, f"faint: every step; line: the mean of the last {max(widths):,} steps", style)
    figure.savefig(path, format="png")


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Each value as the mean of the (up to) `width` values that end with it."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[end] - sums[max(0, end - width)]) / (end - max(0, end - width)) for end in range(1, len(values) + 1)]
