"""Every setting × absurd values: an error that names it, or it works; never a bug, a hang or all memory."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from bounded import BUG, SECONDS, all_bounded, bounded
from calling import Outcome, call
from tiny_runs import Runs

from regard.decoding.config import DecodingConfig
from regard.runs.recipe import Recipe

ABSURD = [
    "-1", "0", "0.5", "1e12", "999999999999", "99999999999999999999999", "inf", "-inf", "nan", "1e300", "1e-300",
    '""', '"\\u0000"', '"/"', "true", "[]", "{}", "[-1]", '["x"]', "[[]]", "1979-05-27", '"' + "x" * 5000 + '"',
]  # fmt: skip
TASKS = ("translation", "language", "classification", "masked", "tagging")
WHAT_WAS_ASKED = {"training.steps"}  # a training of a million million steps is long; nothing is wrong with it
FEW = 30  # in the fast tests, of about ten thousand
N_VALUES = 2  # of the absurd ones, for each setting of decoding in the fast tests


def settings_of(task: str, runs: Runs) -> list[str]:
    recipe = Recipe.read(str(runs[task].parent / "recipe.toml"))
    tables = ("data", "tokenizer", "model", "training", "task", "decoding")
    return [f"{table}.{field.name}" for table in tables for field in dataclasses.fields(getattr(recipe, table))]


def check(outcome: Outcome, place: Path) -> None:
    assert BUG not in outcome.err, (place / "error.log").read_text()[-1500:]
    assert "Traceback" not in outcome.err and "panicked" not in outcome.err
    assert outcome.code in (0, 1, 2, 3), outcome.code
    assert outcome.code == 0 or outcome.err.strip(), "an error says something"


def train(task: str, setting: str, value: str, runs: Runs, place: Path) -> None:
    recipe = runs[task].parent / "recipe.toml"
    few = ["--set", "training.steps=2", "--device", "cpu", "--run", "run"]
    end = bounded(
        lambda: tuple(vars(call(place, "train", recipe, *few, "--set", f"{setting}={value}")).values()), 2 * SECONDS
    )
    if end.how == "hung" and setting in WHAT_WAS_ASKED:
        return
    assert end.how == "returned", f"--set {setting}={value[:40]}: {end}"
    outcome = Outcome(*end.value)
    check(outcome, place)
    if outcome.code == 1 and "step" not in outcome.err:  # refused, not stopped
        left = sorted(path.name for path in (place / "run").rglob("*"))
        assert left == [], f"--set {setting}={value[:40]} was refused ({outcome.err}) and left {left}"


def some_of_all(runs: Runs, n: int) -> list[tuple[str, str, str]]:
    cases = [(task, setting, value) for task in TASKS for setting in settings_of(task, runs) for value in ABSURD]
    return random.Random(7).sample(cases, n)


@pytest.mark.slow  # dozens of recipes, each read and built
def test_some_settings_with_absurd_values(runs: Runs, tmp_path: Path) -> None:
    for i, case in enumerate(some_of_all(runs, FEW)):
        place = tmp_path / str(i)
        place.mkdir()
        train(*case, runs, place)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_setting_with_absurd_values(task: str, runs: Runs, tmp_path: Path) -> None:
    failures = []
    for setting in settings_of(task, runs):
        for i, value in enumerate(ABSURD):
            place = tmp_path / f"{setting}-{i}"
            place.mkdir()
            try:
                train(task, setting, value, runs, place)
            except AssertionError as error:
                failures.append(f"{setting}={value[:40]}: {str(error)[:300]}")
    assert failures == []


def decode(setting: str, values: Sequence[str], runs: Runs, place: Path) -> None:
    run, lines = runs["translation"], b"the cat\n" * 2
    calls = [
        lambda value=value: tuple(
            vars(call(place, "translate", run, "--set", f"{setting}={value}", stdin=lines)).values()
        )
        for value in values
    ]
    for value, end in zip(values, all_bounded(calls), strict=True):
        assert end.how == "returned", f"--set {setting}={value[:40]}: {end}"
        outcome = Outcome(*end.value)
        check(outcome, place)
        assert outcome.code or outcome.out.count("\n") == 2


DECODING = [field.name for field in dataclasses.fields(DecodingConfig)]


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded", cases=3)
@pytest.mark.parametrize("setting", DECODING)
def test_every_decoding_setting_with_some_absurd_values(setting: str, runs: Runs, tmp_path: Path) -> None:
    place = DECODING.index(setting)
    drawn = random.Random(place).sample(ABSURD, N_VALUES)
    decode(setting, [*drawn, ("1000000", "20")[place % 2]], runs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("setting", DECODING)
def test_every_decoding_setting_with_absurd_values(setting: str, runs: Runs, tmp_path: Path) -> None:
    for value in [*ABSURD, "1000000", "20"]:
        decode(setting, [value], runs, tmp_path)
