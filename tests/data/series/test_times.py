"""Times: steps of the clock and of the calendar, zones, and features that go round."""

import numpy as np
import pytest

from regard.data.series.times import Step, calendar_features, find_step, read_times, written
from regard.errors import DataError


def step_of(*texts: str, zone: str = "") -> Step:
    return find_step(read_times(list(texts), "", zone, str), str, rows_are_steps=False)


@pytest.mark.parametrize(
    ("texts", "step", "season"),
    [
        (("2024-01-01 00:00", "2024-01-01 00:15", "2024-01-01 00:30"), "15 minutes", 96),
        (("2024-01-01 00:00", "2024-01-01 01:00", "2024-01-01 02:00"), "1 hour", 24),
        (("2024-02-28", "2024-02-29", "2024-03-01"), "1 day", 7),
        (("2024-01-01", "2024-01-08", "2024-01-15"), "1 week", 52),
        (("2024-01-01", "2024-02-01", "2024-03-01"), "1 month", 12),
        (("2024-01-31", "2024-02-29", "2024-03-31"), "1 month", 12),
        (("2023-01-01", "2024-01-01", "2025-01-01"), "12 months", 1),
        (("2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-01 00:00:01"), "0.5 seconds", 172_800),
    ],
)
def test_steps_and_their_seasons(texts: tuple[str, ...], step: str, season: int) -> None:
    found = step_of(*texts)
    assert (str(found), found.season) == (step, season)
    local, *_ = read_times(list(texts), "", "", str)
    np.testing.assert_array_equal(found.after(local[0], 2), local[1:])


def test_an_hour_that_summer_time_repeats_is_no_repetition() -> None:
    texts = ["2024-10-27 01:00", "2024-10-27 02:00", "2024-10-27 02:00", "2024-10-27 03:00"]
    assert str(step_of(*texts, zone="Europe/Berlin")) == "1 hour"
    with pytest.raises(DataError, match="repeats"):
        step_of(*texts)
    days = ["2024-10-26", "2024-10-27", "2024-10-28"]
    assert str(step_of(*days, zone="Europe/Berlin")) == "1 day"


def test_offsets_are_moments_and_a_zone_says_whose_calendar_is_read() -> None:
    texts = ["2024-07-01T22:00:00+00:00", "2024-07-02T01:00:00+02:00"]
    local, moments, _ = read_times(texts, "", "Europe/Berlin", str)
    assert written(local) == ["2024-07-02 00:00", "2024-07-02 01:00"]
    assert written(moments) == ["2024-07-01 22:00", "2024-07-01 23:00"]


@pytest.mark.parametrize(
    ("texts", "zone", "ahead"),
    [
        (("2024-10-27 00:00", "2024-10-27 01:00"), "Europe/Berlin", ["2024-10-27 02:00", "2024-10-27 02:00"]),
        (("2024-03-31 00:00", "2024-03-31 01:00"), "Europe/Berlin", ["2024-03-31 03:00", "2024-03-31 04:00"]),
        (("2024-10-25", "2024-10-26"), "Europe/Berlin", ["2024-10-27", "2024-10-28"]),
        (("2024-10-27 00:00", "2024-10-27 01:00"), "", ["2024-10-27 02:00", "2024-10-27 03:00"]),
        (("2024-10-26T23:00Z", "2024-10-27T00:00Z"), "", ["2024-10-27 01:00+00:00", "2024-10-27 02:00+00:00"]),
        (
            ("2024-10-26T23:00Z", "2024-10-27T00:00Z"),
            "Europe/Berlin",
            ["2024-10-27 02:00+01:00", "2024-10-27 03:00+01:00"],
        ),
        (
            ("2024-06-29T00:00-05:30", "2024-06-30T00:00-05:30"),
            "",
            ["2024-07-01 05:30+00:00", "2024-07-02 05:30+00:00"],
        ),
    ],
)
def test_times_go_on_as_they_were_written(texts: tuple[str, ...], zone: str, ahead: list[str]) -> None:
    times = read_times(list(texts), "", zone, str)
    found = times.ahead(find_step(times, str, rows_are_steps=False), 2, zone).written()
    assert found == ahead


def test_a_form_of_times_is_read() -> None:
    local, *_ = read_times(["31.01.2024 13:00"], "%d.%m.%Y %H:%M", "", str)
    assert written(local) == ["2024-01-31 13:00"]
    with pytest.raises(DataError, match=r"is not a time as task.time_format = '%d.%m.%Y %H:%M' says"):
        read_times(["2024-01-31"], "%d.%m.%Y %H:%M", "", str)


@pytest.mark.parametrize(
    ("period", "first", "later"),
    [
        ("hour", "2024-01-01 00:20", "2024-05-07 13:20"),
        ("day", "2024-01-01 06:00", "2024-05-07 06:00"),
        ("week", "2024-01-01 06:00", "2024-01-08 06:00"),
        ("month", "2024-01-01", "2024-05-01"),
        ("year", "2023-01-01", "2024-01-01"),
    ],
)
def test_a_period_goes_round(period: str, first: str, later: str) -> None:
    local, *_ = read_times([first, later, "2024-02-10 17:03"], "", "", str)
    features = calendar_features(local, (period,))
    np.testing.assert_allclose(features[0], features[1], atol=1e-9)
    assert np.abs(features[2] - features[0]).max() > 0.01
    np.testing.assert_allclose(np.square(features).sum(1), 1)
