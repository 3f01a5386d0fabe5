"""The estimate of a training's time against the time that it takes."""

import io
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.learning.config import TrainingConfig
from regard.runs.recipe import Recipe
from regard.training import estimate
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

CPU = torch.device("cpu")
RECIPE = """
[task]
kind = "language"
unit = "text"
window = 32
shown = 0
[data]
root = "{root}"
train = ["text.txt"]
valid_share = 0.2
batch_tokens = 256
max_length = 31
[tokenizer]
kind = "characters"
vocab_size = 60
[model]
architecture = "stack"
d_model = 32
n_heads = 2
n_layers = 2
d_ff = 64
max_length = 32
[training]
steps = 150
schedule = "constant"
warmup = 10
validate_every = 50
save_every = 150
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    (tmp_path / "text.txt").write_text("the dog sees a bird in the green house\n" * 200)
    (tmp_path / "tiny.toml").write_text(RECIPE.format(root=tmp_path))
    return Recipe.read(str(tmp_path / "tiny.toml"))


@pytest.mark.slow  # a figure of time, for a machine that is left alone
def test_the_estimate_is_near_the_time_that_it_takes(recipe: Recipe, tmp_path: Path) -> None:
    """Loosely, as other programs use the cores: they may come and go between."""
    prepared = prepare(recipe, tmp_path / "run")
    before = {name: weight.clone() for name, weight in prepared.model.named_parameters()}
    told = estimate.measure(prepared, CPU, seconds=1.0)
    assert all(torch.equal(weight, before[name]) for name, weight in prepared.model.named_parameters())
    begun = time.monotonic()
    start(prepared, tmp_path / "run", CPU, False, Screen(Console(file=io.StringIO())))
    taken = time.monotonic() - begun
    assert taken / 5 < told.seconds < 5 * taken
    assert 50 * 2**20 < told.memory < 20 * 2**30


def test_steps_and_validations_are_counted_as_the_loop_does_them() -> None:
    config = TrainingConfig(steps=95, validate_every=10)
    assert estimate.expected_seconds(config, step=1.0, validation=100.0) == 95 + 10 * 100  # the last is at the end
    assert estimate.expected_seconds(config, 1.0, 100.0, done=90) == 5 + 100
    assert estimate.expected_seconds(TrainingConfig(steps=5, validate_every=0), 2.0, 100.0) == 10


def test_without_data_it_grows_with_the_flops(recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "product_rate", lambda width, device: 1e9)
    model = recipe.sketch()
    small, large = (estimate.by_flops(recipe, model, flops, CPU) for flops in (1e6, 1e9))
    assert large.seconds > 100 * small.seconds and small.memory == large.memory
    assert "rough: `regard show tiny --measure` times real steps" in small.how


def test_the_speed_of_products_is_plausible() -> None:
    assert 1e8 < estimate.product_rate(64, CPU) < 1e14


def test_a_model_is_as_fast_as_its_narrow_products() -> None:
    narrow = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Linear(64, 16), torch.nn.Linear(16, 5000))
    assert estimate.typical_width(narrow) == 16
    assert estimate.typical_width(torch.nn.LSTM(64, 256)) == 128  # U has 64 columns, V 256
    assert estimate.typical_width(torch.nn.LayerNorm(8)) == estimate.NARROWEST
