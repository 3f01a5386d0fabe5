"""regard forecast, look, doctor and evaluate, of a run that forecasts."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from calling import Outcome
from calling import call as call_in

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "series"))
from tiny_series import write_series

from tests.drawn import some_fast

RECIPE = """
[task]
kind = "forecasting"
quantiles = [0.1, 0.5, 0.9]
calendar = [{calendar}]
[data]
root = "{root}"
train = ["some.csv"]
valid_share = 0.2
test_share = 0.2
batch_tokens = 3000
[model]
architecture = "{architecture}"
look_back = 12
horizon = 4
d_model = 8
n_heads = 2
n_layers = 1
d_ff = 16
{more}
[training]
steps = 2
learning_rate = 0.001
schedule = "constant"
warmup = 1
validate_every = 2
save_every = 2
"""
KINDS = {
    "patchtst": ("", "patch = 4\nstride = 2", "Patches of the past"),
    "itransformer": ('"day"', "", "Columns"),
    "transformer-series": ('"day"', "", "The future looks at the past"),
}


def call(*words: object) -> Outcome:
    return call_in(Path(), *words)


def trained(folder: Path, architecture: str) -> Path:
    write_series(folder / "some.csv", 120, value=lambda i: (i % 24, (i * i) % 7))
    calendar, more, _ = KINDS[architecture]
    recipe = folder / "small.toml"
    text = RECIPE.format(root=folder, architecture=architecture, calendar=calendar, more=more)
    recipe.write_text(text, encoding="utf-8")
    done = call("train", recipe, "--run", folder / architecture, "--device", "cpu")
    assert done.code == 0, done.err
    return folder / architecture


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("forecast"), "patchtst")


def test_a_forecast_is_a_csv_table_and_a_picture(run: Path, tmp_path: Path) -> None:
    history, png = run.parent / "some.csv", tmp_path / "forecast.png"
    done = call("forecast", run, history, "--horizon", "3", "--quantiles", "0.1,0.9", "--png", png, "--device", "cpu")
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert list(rows[0]) == ["date", "load", "load 0.1", "load 0.9", "wind", "wind 0.1", "wind 0.9"]
    assert [row["date"] for row in rows] == [f"2024-03-06 0{h}:00" for h in range(3)]
    assert all(float(row["load 0.1"]) <= float(row["load 0.9"]) for row in rows)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_forecast_can_be_read_as_history(run: Path, tmp_path: Path) -> None:
    """What is written has the form of what is read."""
    out = tmp_path / "forecast.csv"
    assert call("forecast", run, run.parent / "some.csv", "--out", out, "--device", "cpu").code == 0
    history = (run.parent / "some.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    longer = tmp_path / "longer.csv"
    longer.write_text("\n".join([*history, *(f"{r['date']},{r['load']},{r['wind']}" for r in rows)]), encoding="utf-8")
    assert call("forecast", run, longer, "--device", "cpu").out.splitlines()[1].startswith("2024-03-06 04:00")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.csv"], "no file nowhere.csv"),
        (["HISTORY", "--horizon", "5"], "this run forecasts 4 steps, got horizon 5"),
        (["HISTORY", "--quantiles", "a"], "--quantiles takes numbers such as 0.05,0.95; got 'a'"),
        (["HISTORY", "--quantiles", "0.99"], "learned quantiles from 0.1 to 0.9, got 0.99"),
    ],
)
def test_mistakes_are_said(run: Path, arguments: list[str], said: str) -> None:
    words = [str(run.parent / "some.csv") if word == "HISTORY" else word for word in arguments]
    done = call("forecast", run, *words, "--device", "cpu")
    assert done.code == 1 and said in done.err, done.err


def test_evaluate_shows_the_rivals_and_who_was_not_beaten(run: Path) -> None:
    done = call("evaluate", run, "--device", "cpu")
    assert done.code == 0, done.err
    rivals = ("repeat the last value", "seasonal naive", "NLinear, least squares", "DLinear, least squares")
    for name in (*rivals, "NLinear of each column, least squares", "by column", "by step ahead"):
        assert name in done.out
    assert "…" not in done.out  # every figure is there, also on a narrow screen
    assert "21 windows; not beaten by MSE: " in done.out
    record = json.loads(call("evaluate", run, "--json", "--device", "cpu").out)
    assert record["windows"] == 21 and set(record["columns"]) == {"load", "wind"} and len(record["steps"]) == 4


def test_the_doctor_says_what_there_is_to_beat(run: Path) -> None:
    done = call("doctor", run.parent / "small.toml", "--seconds", "0", "--device", "cpu")
    assert done.code == 0, done.err
    for text in (
        "1 hour, 24 steps",
        "rows out of step",
        "constant columns",
        "to beat: seasonal naive",
        "to beat: NLinear of",
        " at 24",
    ):
        assert text in done.out


@pytest.mark.parametrize("architecture", some_fast(KINDS, every=3))  # a training each
def test_look_shows_patches_columns_or_steps(architecture: str, tmp_path: Path) -> None:
    run = trained(tmp_path, architecture)
    done = call("look", run, tmp_path / "some.csv", "--terminal", "--png", tmp_path / "look.png", "--device", "cpu")
    assert done.code == 0, done.err
    assert KINDS[architecture][2] in done.out
    named = call("look", run, tmp_path / "some.csv", "--target", "wind", "--device", "cpu")
    assert (named.code == 0) == (architecture == "patchtst"), named
    assert architecture != "patchtst" or call("look", run, tmp_path / "some.csv", "--target", "x").code == 1
