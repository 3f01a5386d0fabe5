"""Tables with times are read as they are written, or refused with the row."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from tiny_series import write_series

from regard.data.notes import Notes
from regard.data.series.form import TableForm
from regard.data.series.series import SeriesSet, filled, read_series
from regard.data.series.tables import frame_table, read_table, read_tables
from regard.data.series.windows import read_stretch
from regard.errors import ConfigError, DataError, RegardError


def series_of(path: Path, **settings: object) -> SeriesSet:
    form = TableForm(**settings)
    return read_stretch((path.name,), str(path.parent), form).series


def read_text(tmp_path: Path, text: str, **settings: object) -> SeriesSet:
    path = tmp_path / "some.csv"
    path.write_text(text, encoding="utf-8")
    return series_of(path, **settings)


def test_a_csv_file_is_read_whole(tmp_path: Path) -> None:
    series = series_of(write_series(tmp_path / "some.csv", 30))
    assert series.names == ("load", "wind") and str(series.step) == "1 hour"
    np.testing.assert_array_equal(series.values, [[i, 100 - 2 * i] for i in range(30)])
    assert series.where(3) == "some.csv:5"


def test_tsv_jsonl_and_packed_files_say_the_same(tmp_path: Path) -> None:
    text = write_series(tmp_path / "some.csv").read_text(encoding="utf-8")
    (tmp_path / "some.tsv").write_text(text.replace(",", "\t"), encoding="utf-8")
    (tmp_path / "some.csv.xz").write_bytes(lzma.compress(text.encode()))
    rows = [line.split(",") for line in text.splitlines()[1:]]
    lines = (f'{{"date": "{date}", "load": {load}, "wind": {wind}}}\n' for date, load, wind in rows)
    (tmp_path / "some.jsonl").write_text("".join(lines), encoding="utf-8")
    wanted = series_of(tmp_path / "some.csv")
    for name in ("some.tsv", "some.csv.xz", "some.jsonl"):
        np.testing.assert_array_equal(series_of(tmp_path / name).values, wanted.values)


def test_parquet_says_the_same_or_what_to_install(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        path.write_bytes(b"PAR1")
        with pytest.raises(RegardError, match=r"pip install '\.\[parquet\]' in a checkout"):
            read_table(path)
        return
    csv = series_of(write_series(tmp_path / "some.csv"))
    columns = {"date": csv.local, "load": csv.values[:, 0], "wind": csv.values[:, 1]}
    parquet.write_table(pyarrow.table(columns), path)
    read = series_of(path)
    np.testing.assert_array_equal(read.values, csv.values)
    np.testing.assert_array_equal(read.local, csv.local)
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(DataError, match=r"cannot be read as Parquet"):
        read_table(path)


def test_a_frame_says_the_same(tmp_path: Path) -> None:
    wanted = series_of(write_series(tmp_path / "some.csv"))
    frame = {"date": wanted.local, "load": wanted.values[:, 0], "wind": list(wanted.values[:, 1])}
    read = read_series(frame_table(frame, "the frame"), TableForm(), Notes())
    np.testing.assert_array_equal(read.values, wanted.values)
    np.testing.assert_array_equal(read.local, wanted.local)


def test_rows_of_several_files_go_on(tmp_path: Path) -> None:
    write_series(tmp_path / "a.csv", 24)
    write_series(tmp_path / "b.csv", 24, first="2024-03-02")
    series = read_stretch(("a.csv", "b.csv"), str(tmp_path), TableForm()).series
    assert len(series) == 48 and series.where(25) == "b.csv:3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-02,3\n", "some.csv:4: 2024-01-02 repeats the time of some.csv:3"),
        ("date,x\n2024-01-02,1\n2024-01-01,2\n", "some.csv:3: .* is earlier than some.csv:2"),
        ("date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-05,3\n2024-01-06,3\n", "2 times are missing between some.csv:3"),
        ("date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-04,3\n2024-01-05,3\n", "a time is missing between some.csv:3"),
        (
            "date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-03,3\n2024-01-03 13:00,3\n2024-01-04 13:00,3\n",
            "not regular between some.csv:4",
        ),
        ("date,x\n2024-01-01,1\n2024-01-02,two\n", "some.csv:3: 'x' is 'two', which is not a number"),
        ("date,x\n2024-01-01,1\n2024-01-02,inf\n", "some.csv:3: 'x' is infinite or above 1e.24"),
        ("date,x\n2024-01-01,1\n2024-01-02,\n", "some.csv:3: 'x' has no value, one of 1 missing"),
        ("date,x\n2024-01-01,1\nyesterday,2\n", "some.csv:3: 'yesterday' is not a time such as 2024-01-31 13:00"),
        ("date,x\n2024-01-01,1\n,2\n", "some.csv:3 has no time"),
        ("date,x\n2024-01-01T00:00Z,1\n2024-01-02T00:00,2\n", "some.csv:3: some times have an offset"),
        ("when,x\n2024-01-01,1\n2024-01-02,2\n", "which column has the times\\? Set task.time to one of: when, x"),
        ("date,x\n2024-01-01,1\n2024-01-02,2,3\n", "some.csv:3 has 3 fields, the first line has 2"),
        ("date,x,x\n2024-01-01,1,2\n", "names the column 'x' twice"),
        ("date\n2024-01-01\n2024-01-02\n", "has no column to forecast"),
        ("date,x\n", "has no rows, only the names of its columns"),
        ("", "some.csv is empty"),
        ("date,x\n2024-01-01,1\n", "a series of one row has no step"),
    ],
)
def test_what_cannot_be_a_series_is_refused_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_text(tmp_path, text)


def test_every_row_is_a_step_where_the_recipe_says_so(tmp_path: Path) -> None:
    text = "date,x\n2024-01-01,1\n2024-01-02,2\n2024-01-02,3\n2024-01-05,4\n2024-01-06,5\n"
    assert len(read_text(tmp_path, text, times="rows")) == 5
    with pytest.raises(DataError, match=r"is earlier than"):
        read_text(tmp_path, text + "2024-01-01,1\n", times="rows")


def test_many_series_in_one_table(tmp_path: Path) -> None:
    rows = [
        f"2024-01-{day:02},{shop},{day * (1 if shop == 'north' else 10)}\n"
        for day in (1, 2, 3)
        for shop in ("north", "south")
    ]
    series = read_text(tmp_path, "date,shop,sold\n" + "".join(rows), id="shop")
    assert series.ids == ["north", "south"] and series.names == ("sold",)
    np.testing.assert_array_equal(series.values[:, 0], [1, 2, 3, 10, 20, 30])
    assert [series.where(i) for i in (0, 3)] == ["some.csv:2", "some.csv:3"]
    with pytest.raises(DataError, match=r"name their column: task.id"):
        read_text(tmp_path, "date,shop,sold\n" + "".join(rows), columns=("sold",))


def test_a_missing_value_is_filled_from_the_past_alone() -> None:
    nan = float("nan")
    values = np.array([[nan], [1.0], [nan], [nan], [4.0], [5.0], [nan]])
    whole = [slice(0, 5), slice(5, 7)]
    np.testing.assert_array_equal(filled(values, whole, "last")[:, 0], [0, 1, 1, 1, 4, 5, 5])
    np.testing.assert_array_equal(filled(values, whole, "mean")[:, 0], [0, 1, 0, 0, 4, 5, 0])


def test_latin_1_is_read_where_the_recipe_says_so(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_bytes("date,W/m²\n2024-01-01,1\n2024-01-02,2\n".encode("latin-1"))
    assert series_of(path, encoding="latin-1").names == ("W/m²",)
    with pytest.raises(DataError, match=r"some.csv:1 is not UTF-8"):
        series_of(path)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zone": "Europe/Atlantis"}, "there is no time zone 'Europe/Atlantis'"),
        ({"calendar": ("fortnight",)}, "the calendar has no 'fortnight'; it has: hour, day"),
        ({"known": ("x",), "columns": ("x",)}, "the column 'x' is named twice"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
        ({"missing": "guess"}, "missing must be one of refuse, last, mean"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TableForm(**settings)


def test_files_need_the_same_columns(tmp_path: Path) -> None:
    write_series(tmp_path / "a.csv")
    write_series(tmp_path / "b.csv", names="load,sun")
    with pytest.raises(DataError, match=r"b.csv has other columns than a.csv"):
        read_tables(("a.csv", "b.csv"), tmp_path, "utf-8", Notes())
