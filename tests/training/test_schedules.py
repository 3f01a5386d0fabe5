from itertools import pairwise

import pytest

from regard.learning.schedules import SCHEDULES, Course, cosine, linear, noam

COURSE = Course(steps=100, warmup=20, d_model=512)


@pytest.mark.parametrize(
    ("step", "rate"),
    [(1, 1.746928e-7), (2000, 3.493856e-4), (4000, 6.987712e-4), (16_000, 3.493856e-4), (100_000, 1.397542e-4)],
)
def test_noam_is_the_papers_formula_at_known_steps(step: int, rate: float) -> None:
    assert noam(step, Course(steps=100_000, warmup=4000, d_model=512)) == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_rises_straight_to_its_peak_and_never_rises_again(name: str) -> None:
    rates = [SCHEDULES[name](step, COURSE) for step in range(1, 101)]
    assert max(rates) == rates[19]
    assert rates[4] == pytest.approx(rates[19] / 4)
    assert all(earlier >= later for earlier, later in pairwise(rates[19:]))
    assert all(rate > 0 for rate in rates)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_the_configured_rate_is_the_peak(name: str) -> None:
    assert SCHEDULES[name](20, COURSE) == 1.0
    assert SCHEDULES[name](1, Course(steps=100, warmup=0, d_model=1)) >= 0.98


def test_half_way_down() -> None:
    course = Course(steps=119, warmup=20, d_model=1)
    assert linear(70, course) == pytest.approx(0.5)
    assert cosine(70, course) == pytest.approx(0.5)
    assert linear(45, course) == pytest.approx(0.75)
    assert cosine(45, course) == pytest.approx(0.8535534)
    assert linear(120, course) == pytest.approx(0) == cosine(120, course)


def test_a_warm_up_longer_than_the_training_is_no_division_by_zero() -> None:
    for schedule in SCHEDULES.values():
        assert 0 < schedule(10, Course(steps=10, warmup=10, d_model=4)) <= 1
        assert 0 < schedule(10, Course(steps=10, warmup=50, d_model=4)) <= 1
