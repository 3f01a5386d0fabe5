"""A recipe cut to given minutes."""

from types import SimpleNamespace

import pytest
import torch

from regard.errors import ConfigError
from regard.learning.config import TrainingConfig
from regard.learning.schedules import SCHEDULES, Course
from regard.training import shortening
from regard.training.call import check_minutes, train
from regard.training.estimate import Estimate, expected_seconds, is_enough, steady
from regard.training.prepare import Prepared
from regard.training.shortening import fitted

LONG = TrainingConfig(steps=6000, warmup=1000, validate_every=500, save_every=500, schedule="noam", learning_rate=1.0)


def test_what_fits_stays_as_it_is() -> None:
    assert fitted(LONG, step=0.01, validation=1.0, seconds=73.0, d_model=256) is LONG


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_does_not_fit_is_shorter_in_all_that_is_counted_in_steps(schedule: str) -> None:
    long = TrainingConfig(steps=6000, warmup=1000, validate_every=500, save_every=500, schedule=schedule)
    short = fitted(long, step=0.01, validation=0.1, seconds=20.0, d_model=256)
    assert 1500 < short.steps < 2000 and expected_seconds(short, 0.01, 0.1) <= 20.0
    shares = [short.steps / 6000, short.warmup / 1000, short.validate_every / 500, short.save_every / 500]
    assert shares == pytest.approx([short.steps / 6000] * 4, rel=0.02)
    highest = []
    for config in (long, short):
        course = Course(steps=config.steps, warmup=config.warmup, d_model=256)
        highest.append(config.learning_rate * max(SCHEDULES[schedule](s, course) for s in range(1, config.steps + 1)))
    assert highest[0] == pytest.approx(highest[1], rel=1e-3)


def test_slow_validations_become_fewer() -> None:
    short = fitted(LONG, step=0.01, validation=5.0, seconds=20.0, d_model=256)
    assert expected_seconds(short, 0.01, 5.0) <= 20.0 and short.validate_every == short.steps


def test_without_time_a_step_is_left() -> None:
    short = fitted(LONG, step=10.0, validation=0.0, seconds=1.0, d_model=256)
    assert (short.steps, short.warmup, short.validate_every, short.save_every) == (1, 1, 1, 1)


def test_a_step_that_compiled_does_not_count_nor_what_came_before_it() -> None:
    assert steady([9.0, 9.0, 400.0, 1.0, 1.2, 0.8]) == [1.0, 1.2, 0.8]
    assert steady([1.0, 40.0, 1.2, 0.8]) == [1.0, 1.2, 0.8]  # too few come after it
    assert steady([2.0, 3.0, 4.0]) == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("steps", "enough"),
    [
        ([3.0, 3.0], False),  # too few
        ([3.0, 3.0, 3.0], True),
        ([0.1, 30.0, 0.1, 0.1], False),  # compiling does not count ...
        ([0.1, 0.1, 41.0, 0.1, 0.1, 0.1], True),  # ... but it is not waited for without end
        ([41.0], True),
    ],
)
def test_steps_are_timed_for_eight_seconds_or_forty_with_what_compiles(steps: list[float], enough: bool) -> None:
    assert is_enough(steps, 8.0) is enough


def test_minutes_that_cannot_be_kept_are_refused() -> None:
    for minutes in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="minutes must be above 0"):
            check_minutes(minutes, resume=False)
    with pytest.raises(ConfigError, match="a resumed run has the steps that it began with"):
        check_minutes(1.0, resume=True)


def test_the_timing_itself_takes_nothing_of_the_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU most of it is compiling: with 2.2 minutes for all, 13 of 6,000 steps were left."""
    clock = [0.0]
    recipe = SimpleNamespace(training=LONG, d_model=256, distribution=SimpleNamespace(n_shards=1))
    prepared = Prepared(recipe, None, None, None, None)  # type: ignore[arg-type]

    def measure(prepared: Prepared, device: object) -> Estimate:
        clock[0] += 120.0
        return Estimate(0.0, 0, 0.1, "")

    monkeypatch.setattr(shortening, "measure", measure)
    monkeypatch.setattr(shortening, "validation_seconds", lambda *_: 0.0)
    monkeypatch.setattr(shortening, "replace", lambda thing, **changes: changes)
    monkeypatch.setattr(shortening.time, "monotonic", lambda: clock[0])
    seen: list[float] = []

    def fit(config: TrainingConfig, step: float, validation: float, seconds: float, d_model: int) -> TrainingConfig:
        seen.append(seconds)
        return config

    monkeypatch.setattr(shortening, "fitted", fit)
    shortening.shorten(prepared, 2.0, 0.0, torch.device("cpu"), SimpleNamespace(say=print))  # type: ignore[arg-type]
    assert seen == [pytest.approx(108.0)]


def test_a_run_says_how_many_steps_it_took(tmp_path, capsys) -> None:
    (tmp_path / "lines.tsv").write_text("".join(f"a good day {i}\tyes\na bad day {i}\tno\n" for i in range(40)))
    tables = {
        "task": {"kind": "classification"},
        "data": {"root": str(tmp_path), "train": ["lines.tsv"], "columns": ["1", "2"], "batch_tokens": 50},
        "tokenizer": {"kind": "words"},
        "model": {"architecture": "bag"},
        "training": {"steps": 1_000_000, "schedule": "linear", "learning_rate": 0.01, "save_every": 1_000_000},
    }
    run = train(tables, tmp_path / "run", minutes=0.01, device="cpu")
    assert 0 < run.recipe.training.steps < 100_000
    assert f"{run.recipe.training.steps:,} of 1,000,000 steps fit into 0.01 minutes" in capsys.readouterr().out
