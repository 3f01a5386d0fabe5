"""A picture (PNG) of a forecast: history, what is expected to come, and bands between quantiles."""

from pathlib import Path
from typing import Protocol

import numpy as np

from regard.errors import RegardError
from regard.viewer.style import LIGHT, Style, blank, plain, shown

MOST_PANELS = 24  # series times columns; more would not be seen
SHOWN = 3.0  # steps of history for each step ahead


class ForecastBands(Protocol):
    """S series, H steps, C columns."""

    @property
    def ids(self) -> list[str]: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def times(self) -> list[list[str]]: ...
    @property
    def values(self) -> np.ndarray: ...
    @property
    def quantiles(self) -> dict[float, np.ndarray]: ...
    @property
    def history(self) -> list[np.ndarray]: ...


def draw_forecast(forecast: ForecastBands, path: Path, style: Style = LIGHT) -> None:
    """A panel for each series and column."""
    n_series, horizon, n_columns = forecast.values.shape
    panels = [(s, c) for s in range(n_series) for c in range(n_columns)]
    if len(panels) > MOST_PANELS:
        raise RegardError(
            f"a picture has room for {MOST_PANELS} panels, and this forecast has {len(panels)}; give fewer"
        )
    figure = blank(9.0, 1.9 * len(panels) + 0.6, style)
    table = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    steps, levels = np.arange(1, horizon + 1), sorted(forecast.quantiles)
    for axes, (s, c) in zip(table, panels, strict=True):
        past = forecast.history[s][-int(SHOWN * horizon) :, c]
        axes.plot(np.arange(1 - len(past), 1), past, color=style.soft, linewidth=1.2, label="history")
        for low, high in zip(levels, reversed(levels), strict=True):
            if low < high:
                below, above = (forecast.quantiles[level][s, :, c] for level in (low, high))
                axes.fill_between(
                    steps, below, above, color=style.lines[0], alpha=0.18, linewidth=0, label=f"{low:g} to {high:g}"
                )
        axes.plot(steps, forecast.values[s, :, c], color=style.lines[0], linewidth=1.5, label="forecast")
        axes.axvline(0.5, color=style.rule, linewidth=0.8)
        name = " ".join(part for part in (forecast.ids[s], forecast.columns[c]) if part)
        axes.set_title(shown(name), fontsize=10, color=style.ink, loc="left", parse_math=False)
        plain(axes, style)
    table[0].legend(
        fontsize=8,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2 + len(levels) // 2,
        frameon=False,
        labelcolor=style.ink,
    )
    first = forecast.times[0][0] if forecast.times else "the first that is forecast"
    table[-1].set_xlabel(f"steps; 1 is {first}", fontsize=9, color=style.soft)
    figure.savefig(path, format="png")
