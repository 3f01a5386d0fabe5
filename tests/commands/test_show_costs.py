"""`regard show`: its verdict first; GPT-1 to 3 beside the training costs that the lectures state."""

import re
from pathlib import Path

import pytest
import torch
from calling import Call

from regard.commands.show import LECTURES, costs, parts, verdict
from regard.runs.recipe import Recipe
from regard.training import estimate
from regard.training.estimate import Estimate, by_flops


def shown(name: str) -> dict[str, str]:
    recipe = Recipe.read(name)
    model = recipe.sketch()
    cost = model.cost(recipe.task.window)
    table = costs(recipe, cost, by_flops(recipe, model, cost.forward, torch.device("cpu")), "cpu")
    return dict(zip(*(column._cells for column in table.columns[:2]), strict=True))


@pytest.mark.parametrize(
    ("name", "stated", "tokens"),
    [
        ("gpt1", "8.6e+19 FLOPs", "1.2e+11 tokens"),
        pytest.param("gpt2-xl", "1.5e+21 FLOPs", "1.5e+11 tokens", marks=pytest.mark.slow),  # seconds, to be built
        # Brown et al. 2020, table 2.1: 300 billion
        pytest.param("gpt3", "3.1e+23 FLOPs", "3e+11 tokens", marks=pytest.mark.slow),
    ],
)
def test_what_the_lectures_say(name: str, stated: str, tokens: str) -> None:
    rows = shown(name)
    assert rows["the lectures say"] == stated and rows["which are for"] == tokens


def test_others_say_nothing_of_lectures() -> None:
    assert "the lectures say" not in shown("gpt2") and set(LECTURES) == {"gpt1", "gpt2-xl", "gpt3"}


def test_the_verdict_comes_first(lab: Path, regard: Call) -> None:
    first, second, third, fourth, *_ = regard("show", lab / "one").out.splitlines()
    assert re.fullmatch(r".*one: a transformer model of [\d,]+ parameters\.", first)
    assert re.fullmatch(
        r"It can be trained on this \w+: about \d+ s, \d+ MiB of the [\d,]+ .iB that are free\.", second
    )
    assert re.fullmatch(r"Time and memory: by FLOPs, at .*; rough: `regard show .*one --measure` times .*", third)
    assert fourth.strip() == "What it takes", "and its data are there"


def test_what_does_not_fit_is_said_first() -> None:
    estimate = Estimate(seconds=7200, memory=64 * 2**30, step=1.0, how="")
    said = verdict(estimate, "cpu", free=2**33)
    assert said.startswith("Too large for this cpu: training needs about 64 GiB, and 8,192 MiB are free.")
    assert "2.0 h" in said


def test_missing_data_are_said_with_the_way_to_get_them(regard: Call) -> None:
    shown = regard("show", "sst2-bag").out
    assert "The data are missing: data/sst2/train.tsv.xz and 1 more; `regard data sst2` says where" in shown
    assert "`regard demo` generates it" in regard("show", "demo").out


def test_steps_are_timed_where_that_is_asked(lab: Path, regard: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what doctor and train estimate with."""
    monkeypatch.setattr(estimate, "time_step", lambda prepared, device, seconds: 3600.0)
    out = regard("show", lab / "tiny.toml", "--measure").out
    assert "Time and memory: measured on a few steps." in out and re.search(r"about [\d,.]+ (h|days)", out)


def test_zeros_are_folded(regard: Call) -> None:
    for name in ("demo", "sst2-bag", "ptb-trigram"):
        assert not re.search(r"│ +(about )?0( s| MiB)? +│", regard("show", name).out), name


def test_a_weight_and_its_bias_are_one_row() -> None:
    table = parts("parameters", torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2)).named_parameters())
    names, shapes, counts = (list(column.cells) for column in table.columns)
    assert names == ["0", "1"] and shapes == ["2 × 3 + 2", "2 + 2"] and counts == ["8", "4"]
