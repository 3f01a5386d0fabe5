"""Bars side by side: what the picture shows is what it was given."""

from pathlib import Path

import pytest
from matplotlib.axes import Axes

from regard.viewer.charts import Panel, bars


def test_a_scale_is_logarithmic_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scales: list[str] = []
    monkeypatch.setattr(Axes, "set_xscale", lambda axes, scale: scales.append(scale))
    bars(["a", "b"], [Panel("plain", [1.0, 2.0])], "title", tmp_path / "plain.png")
    assert scales == []
    bars(["a", "b"], [Panel("wide", [1.0, 2000.0], logarithmic=True)], "title", tmp_path / "wide.png")
    assert scales == ["log"]
    bars(["a", "b"], [Panel("zero", [0.0, 2000.0], logarithmic=True)], "title", tmp_path / "zero.png")
    assert scales == ["log"], "a logarithmic scale has no zero"
