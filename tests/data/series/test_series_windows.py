"""Windows: none is dropped, the border of a part has its look-back before it, and nothing of the future is read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_series import write_series

from regard.data.config import DataConfig
from regard.data.series.form import TableForm
from regard.data.series.report import out_of_step, series_rows
from regard.data.series.series import Scale
from regard.data.series.windows import WindowSet, series_parts
from regard.errors import DataError
from regard.nn.series import SeriesForm

SIZES = SeriesForm(look_back=5, horizon=3, n_columns=2, n_seen=0, n_known=0, n_outputs=1)


def parts_of(path: Path, **settings: object) -> dict[str, WindowSet]:
    form = TableForm(**settings)
    data = DataConfig(root=str(path.parent), train=(path.name,), valid_share=0.25, test_share=0.25)
    parts = series_parts(form, data)
    scale = Scale.of(parts.train.series, parts.train.rows)
    found = {"train": parts.train, "valid": parts.valid, "test": parts.test}
    return {name: WindowSet(stretch, scale, form, SIZES) for name, stretch in found.items() if stretch is not None}


def test_every_row_of_a_part_is_forecast_and_the_last_window_ends_with_the_last_row(tmp_path: Path) -> None:
    parts = parts_of(write_series(tmp_path / "some.csv", 40))
    assert {name: (part.origins[0], part.origins[-1]) for name, part in parts.items()} == {
        "train": (5, 17),  # rows 0 to 19
        "valid": (20, 27),
        "test": (30, 37),
    }
    past, _, future, measured = parts["test"].read(np.array([len(parts["test"]) - 1]))
    values = parts["test"].values
    assert torch.equal(future[0], values[37:40]) and torch.equal(past[0], values[32:37]) and measured is None


def test_no_feature_moves_when_all_of_the_future_changes(tmp_path: Path) -> None:
    """Neither the scale, which is that of training, nor what a window reads, nor how a missing value is filled."""

    def value(i: int) -> tuple[object, ...]:
        return i % 7, "" if i in (3, 18, 26) else i % 5, 0.5 * i

    def changed(i: int) -> tuple[object, ...]:
        price = 0.5 * i  # known ahead
        return value(i) if i < origin else (1e3 + 17 * i, -50.0 * i, price)

    settings = {"missing": "last", "known": ("price",), "calendar": ("day", "week")}
    for origin in (20, 27, 30, 37):
        names = "load,wind,price"
        before = parts_of(write_series(tmp_path / "a.csv", 40, value=value, names=names), **settings)
        after = parts_of(write_series(tmp_path / "b.csv", 40, value=changed, names=names), **settings)
        np.testing.assert_array_equal(before["train"].scale.means, after["train"].scale.means)
        np.testing.assert_array_equal(before["train"].scale.deviations, after["train"].scale.deviations)
        for name, part in before.items():
            seen = np.flatnonzero(part.origins <= origin)
            if len(seen):
                for wanted, found in zip(part.read(seen)[:2], after[name].read(seen)[:2], strict=True):
                    assert torch.equal(wanted, found)
        assert not torch.equal(before["test"].read(np.array([7]))[2], after["test"].read(np.array([7]))[2])


def test_what_was_filled_is_not_measured(tmp_path: Path) -> None:
    part = parts_of(write_series(tmp_path / "a.csv", 40, value=lambda i: (i, "" if i == 37 else 1)), missing="last")
    *_, measured = part["test"].read(np.array([7]))
    assert measured is not None and measured[0].tolist() == [[True, False], [True, True], [True, True]]


def test_series_that_begin_at_different_times_are_cut_at_one_time(tmp_path: Path) -> None:
    days = [f"2024-01-{day:02}" for day in range(1, 31)]
    old = [f"{day},old,{i},0\n" for i, day in enumerate(days)]
    young = [f"{day},young,{i},1\n" for i, day in enumerate(days) if i >= 10]
    path = tmp_path / "shops.csv"
    path.write_text("date,shop,a,b\n" + "".join(old + young), encoding="utf-8")
    parts = parts_of(path, id="shop")
    for part in parts.values():
        first, last = (
            {part.series.local[i] for i in ends}
            for ends in zip(*((r.start, r.stop - 1) for r in part.stretch.rows), strict=True)
        )
        assert len(last) == 1 and (len(first) == 1 or part is parts["train"])
    assert parts["train"].notes.counts == {"series too short for a window, not used": 1}


def test_rows_after_those_that_are_used_are_said(tmp_path: Path) -> None:
    part = parts_of(write_series(tmp_path / "some.csv", 50), rows=40)["train"]
    assert part.notes.rows() == ["rows after the first 40 not used (task.rows): 10 (first at some.csv:42)"]


def test_too_few_rows_for_a_window_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no window fits: one has 5 steps of the past and 3 ahead"):
        parts_of(write_series(tmp_path / "some.csv", 14))


def test_a_constant_column_is_only_shifted(tmp_path: Path) -> None:
    part = parts_of(write_series(tmp_path / "some.csv", 40, value=lambda i: (i, 7)))["train"]
    assert torch.equal(part.values[:, 1], torch.zeros(40)) and part.scale.deviations[1] == 1


def test_a_column_without_a_value_in_training_is_named(tmp_path: Path) -> None:
    late = write_series(tmp_path / "some.csv", 40, value=lambda i: (i, "" if i < 25 else 7))
    with pytest.raises(DataError, match=r"some.csv: 'wind' has no value in the training part; leave it out"):
        parts_of(late, missing="last")


def test_the_doctor_says_which_rows_are_out_of_step(tmp_path: Path) -> None:
    file = write_series(tmp_path / "some.csv", 40)
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(lines[:12] + lines[14:]) + "\n", encoding="utf-8")  # two hours are missing
    rows = series_rows("train", parts_of(file, times="rows")["train"], 24)
    assert [(row.value, row.where) for row in rows if row.what == "rows out of step"] == [("1", "some.csv:13")]
    summer = write_series(tmp_path / "some.csv", 40, first="2024-03-30 20:00")  # 02:00 of the 31st is in no calendar
    lines = summer.read_text(encoding="utf-8").splitlines()
    summer.write_text("\n".join(lines[:7] + lines[8:]) + "\n", encoding="utf-8")
    assert out_of_step(parts_of(summer, zone="Europe/Berlin")["train"]) == []
