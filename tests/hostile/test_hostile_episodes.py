"""Episodes whose symbols, numbers and settings are hostile: they are read, learned and looked at, or refused."""

import json
import random
from pathlib import Path

import pytest
from hostile_text import LINES, within_limits
from test_settings import ABSURD, check, settings_of, train
from tiny_runs import Runs

from regard.data.episodes.files import LONGEST_SYMBOL

FITTING = {name: line for name, line in LINES.items() if len(line) <= LONGEST_SYMBOL and "\0" not in line}
NUMBERS = [0, -0.0, 1e-300, 1e29, -1e29, 3, 10**18, 0.1]
FEW = 25  # of the settings with absurd values


def learn(place: Path, runs: Runs, states: list[list[object]], *more: list[str]) -> list:
    """`doctor`, `train` and what follows, on episodes of one step each."""
    lines = [json.dumps({"states": [state], "actions": [i % 3], "rewards": [i % 2]}) for i, state in enumerate(states)]
    (place / "hostile.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = str(runs["decisions"].parent / "recipe.toml")
    data = ["--set", f"data.root={place}", "--set", 'data.train=["hostile.jsonl"]', "--set", "task.game="]
    data += [word for part in ("valid", "test") for word in ("--set", f'data.{part}=["hostile.jsonl"]')]
    calls = [
        ["doctor", recipe, *data, "--seconds", "0", "--device", "cpu"],
        ["train", recipe, *data, "--set", "training.steps=2", "--run", "run", "--device", "cpu"],
        *more,
    ]
    return within_limits(place, *((words, b"") for words in calls))


@pytest.mark.slow  # a whole training
def test_symbols_are_whatever_they_are(runs: Runs, tmp_path: Path) -> None:
    states = [[line, other] for line, other in zip(FITTING.values(), list(FITTING.values())[::-1], strict=True)]
    further = [["evaluate", "run", "--device", "cpu"], ["look", "run", "hostile.jsonl:2", "--device", "cpu"]]
    outcomes = learn(tmp_path, runs, states, *further)
    assert [outcome.code for outcome in outcomes] == [0] * 4, outcomes


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("name", sorted(LINES.keys() - FITTING.keys()))
def test_symbols_that_are_too_long_or_hold_nul_are_named(name: str, runs: Runs, tmp_path: Path) -> None:
    for outcome in learn(tmp_path, runs, [["fine"], [LINES[name]]]):
        assert outcome.code == 1 and "hostile.jsonl:2, step 1: a symbol has at most 200 characters" in outcome.err


def test_numbers_far_apart_are_learned(runs: Runs, tmp_path: Path) -> None:
    outcomes = learn(tmp_path, runs, [[number, 1] for number in NUMBERS])
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes


def test_bytes_that_are_no_text_are_an_error(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "bytes.jsonl").write_bytes(b'{"states": ["caf\xe9"], "actions": [0], "rewards": [0]}\n')
    (outcome,) = within_limits(tmp_path, (["evaluate", runs["decisions"], "bytes.jsonl", "--device", "cpu"], b""))
    assert outcome.code == 1 and "bytes.jsonl:1 is not UTF-8 (byte 0xe9)" in outcome.err


@pytest.mark.slow  # dozens of recipes, each read and built
def test_some_settings_with_absurd_values(runs: Runs, tmp_path: Path) -> None:
    own = [setting for setting in settings_of("decisions", runs) if setting.startswith("task.")]
    cases = [(setting, value) for setting in own for value in ABSURD]
    for i, (setting, value) in enumerate(random.Random(3).sample(cases, FEW)):
        place = tmp_path / str(i)
        place.mkdir()
        train("decisions", setting, value, runs, place)


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("words", [["--episodes", "0"], ["--seed", "-1"], ["--return", "1e400"], ["--return", "x"]])
def test_absurd_options_of_play_are_refused(words: list[str], runs: Runs, tmp_path: Path) -> None:
    (outcome,) = within_limits(tmp_path, (["play", runs["decisions"], *words, "--device", "cpu"], b""))
    check(outcome, tmp_path)
    assert outcome.code in (1, 2)


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("value", ["1e30", "-1e30", "1e6", "0"])
def test_any_return_can_be_asked_for_until_numbers_end(value: str, runs: Runs, tmp_path: Path) -> None:
    (outcome,) = within_limits(tmp_path, (["play", runs["decisions"], "--return", value, "--device", "cpu"], b""))
    if "e30" in value:
        assert outcome.code == 1 and "step 1: the model's output is not a finite number; ask for" in outcome.err
    else:
        assert outcome.code == 0 and f"asked {float(value):g}, reached" in outcome.out
