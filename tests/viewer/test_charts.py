"""Bars and lines: what the picture shows is what it was given, on light paper and on dark."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.image import imread
from matplotlib.text import Text

from regard.viewer import charts
from regard.viewer.charts import Panel, bars
from regard.viewer.curves import CurvePanel, draw_panels
from regard.viewer.plane import embeddings
from regard.viewer.style import DARK, LIGHT


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written on the pictures."""
    texts: list[str] = []
    draw = Text.draw

    def note(text: Text, *arguments: object, **more: object) -> None:
        texts.append(text.get_text())
        draw(text, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Text, "draw", note)
    return texts


def test_a_scale_is_logarithmic_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scales: list[str] = []
    monkeypatch.setattr(Axes, "set_xscale", lambda axes, scale: scales.append(scale))
    bars(["a", "b"], [Panel("plain", [1.0, 2.0])], "title", tmp_path / "plain.png")
    assert scales == []
    bars(["a", "b"], [Panel("wide", [1.0, 2000.0], logarithmic=True)], "title", tmp_path / "wide.png")
    assert scales == ["log"]
    bars(["a", "b"], [Panel("zero", [0.0, 2000.0], logarithmic=True)], "title", tmp_path / "zero.png")
    assert scales == ["log"], "a logarithmic scale has no zero"


def test_small_losses_keep_their_digits_and_smoothing_is_noted(tmp_path: Path, written: list[str]) -> None:
    losses = [(step, 10 ** (-step / 100)) for step in range(1, 301)]
    draw_panels([CurvePanel(title="loss", training=losses, is_smoothed=True, logarithmic=True)], tmp_path / "c.png")
    assert {"0.001", "0.01", "0.1"} <= set(written) and "0.00" not in written
    assert "faint: every step; line: the mean of the last 3 steps" in written


def test_words_are_written_without_marks_of_spaces(tmp_path: Path, written: list[str]) -> None:
    vectors = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    embeddings(vectors, [" the", " cat", " dog", "ing"], tmp_path / "e.png", marked=[1])
    assert {"the", "cat", "dog", "·ing", "·word: no space stands before it"} <= set(written)
    written.clear()
    embeddings(vectors, ["the", "cat", "dog", "sat"], tmp_path / "e.png")
    assert {"the", "cat", "dog", "sat"} <= set(written) and not any("·" in text for text in written)


def test_a_run_that_ended_early_says_so() -> None:
    assert charts.NormCurve([1, 2], [1.0, 2.0], 0.0, 78).n_steps == "2 of 80"
    assert charts.NormCurve([1, 2], [1.0, 2.0], 0.0, 0).n_steps == "2"


@pytest.mark.parametrize("last", [81_920, 10_000_000, 10**10])
def test_the_axis_of_tokens_has_numbers(last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    blank = charts.blank
    monkeypatch.setattr(charts, "blank", lambda *size: figures.append(blank(*size)) or figures[-1])
    charts.losses({"gru": [(16_384, 6.0), (last, 5.0)]}, tmp_path / "losses.png")
    axes = figures[0].axes[0]
    low, high = axes.get_xlim()
    numbers = [tick.get_text() for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    assert 2 <= len([number for number in numbers if number]) <= 12


@pytest.mark.slow  # six pictures
def test_all_are_drawn_on_both_papers(tmp_path: Path) -> None:
    for style in (LIGHT, DARK):
        charts.reach({"a": np.array([1.0, 0.5])}, tmp_path / "reach.png", style=style)
        charts.norms({"a": charts.NormCurve([1, 2], [1.0, 2.0], 1.0, 3)}, tmp_path / "norms.png", style)
        charts.losses({"a": [(1, 2.0), (2, 1.0)]}, tmp_path / "losses.png", style)
        paper = [int(style.paper[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        for name in ("reach", "norms", "losses"):
            np.testing.assert_allclose(imread(tmp_path / f"{name}.png")[0, 0, :3], paper, atol=0.01)
