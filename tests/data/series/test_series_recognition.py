"""Tables of series are recognized, with the settings that read them; tables of texts are not."""

from pathlib import Path

import pytest
from tiny_series import write_series

from regard.config import build
from regard.data.config import DataConfig
from regard.tasks.table import TASKS, recognize_all


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_table_of_series_is_recognized_and_read(tmp_path: Path) -> None:
    [(name, found)] = recognize_all([write_series(tmp_path / "load.csv", names="load (MW),wind")])
    assert name == "forecasting" and found.task == {"time": "date"}
    assert found.why == "load.csv is a table: its column date has times, and 2 have numbers"
    settings = build(TASKS[name].settings, dict(found.task), "task")
    assert TASKS[name].read_parts(settings, build(DataConfig, dict(found.data), "data")).train.series.n_columns == 2


def test_a_column_of_names_says_which_series(tmp_path: Path) -> None:
    rows = [f"2024-01-0{day},{shop},{day}" for day in range(1, 5) for shop in ("north", "south")]
    found = dict(recognize_all([write(tmp_path / "shops.csv", "day,shop,sold", *rows)]))["forecasting"]
    assert found.task == {"time": "day", "id": "shop"}


@pytest.mark.parametrize(
    "lines",
    [
        ("text,label", "a good film,1", "a bad film,0", "a good story,1", "no,0"),
        ("date,text", "2024-01-01,a good day", "2024-01-02,a bad day", "2024-01-03,rain again"),
        ("x,y", "1,2", "3,4", "5,6", "7,8"),
        ("from,to,x", "2024-01-01,2024-01-02,1", "2024-01-02,2024-01-03,1", "2024-01-03,2024-01-04,1"),
        ('date,"x', "2024-01-01,1"),
        ("date,x",),
        ("",),
    ],
)
def test_other_tables_are_not(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert "forecasting" not in dict(recognize_all([write(tmp_path / "some.csv", *lines)]))
