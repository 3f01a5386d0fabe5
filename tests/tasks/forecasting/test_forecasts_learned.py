"""A whole training on real data: the linear recipe of ETTh1 reaches its figures, and its intervals cover."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

DATA = Path(__file__).parents[3].parent / "shared" / "data"


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no shared data")
def test_the_linear_recipe_of_etth1(tmp_path: Path) -> None:
    recipe = Recipe.read("etth1-linear", [f'data.root="{DATA}"'])
    start(prepare(recipe, tmp_path / "run"), tmp_path / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    measured = load(tmp_path / "run", "cpu").measure()
    found = {metric.name: metric.value for metric in measured.metrics}
    assert measured.record["windows"] == 2880 - 96 + 1
    assert found["mse"] <= 0.375 and 0.85 <= found["coverage"] <= 0.95, found
    beside = measured.record["beside"]
    assert beside["NLinear, least squares"]["mse"] == pytest.approx(0.3638, abs=5e-4)
    assert beside["repeat the last value"]["mse"] == pytest.approx(1.2944, abs=5e-4)
