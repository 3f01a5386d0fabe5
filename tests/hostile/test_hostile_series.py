"""Tables of series × hostile fields, as names, times and numbers: they are read, or refused with their row."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bounded import End, bounded
from calling import Outcome
from hostile_text import LINES, NOT_TEXT, filled, within_limits
from tiny_runs import Runs

from regard.errors import RegardError
from regard.runs.run import load

FIELDS = {
    **LINES,
    "infinite": "inf",
    "no number": "nan",
    "many digits": "9" * 5_000,
    "a huge number": "1e308",
    "a tiny number": "1e-320",
    "underscores": "1_0",
    "other digits": "٣",
    "year 0": "0000-01-01",
    "year 10000": "10000-01-01",
    "a week": "2024-W07",
    "with an offset": "2024-02-03T00:00:00+14:00",
    "formula": "=1+1",
}
N_ROWS = 12
Table = list[list[str]]
# By place: what becomes of a table whose first line names its columns.
PLACES: dict[str, Callable[[Table, str], Table]] = {
    "a name": lambda table, field: [[table[0][0], field, table[0][2]], *table[1:]],
    "the name of times": lambda table, field: [[field, *table[0][1:]], *table[1:]],
    "a time": lambda table, field: [*table[:5], [field, *table[5][1:]], *table[6:]],
    "a number": lambda table, field: [*table[:5], [*table[5][:2], field], *table[6:]],
    "all numbers": lambda table, field: [table[0], *([*row[:2], field] for row in table[1:])],
    "one more field": lambda table, field: [*table[:5], [*table[5], field], *table[6:]],
}


def plain_table() -> Table:
    return [["date", "load", "wind"], *([f"2024-02-{i + 1:02}", str(i % 3), str(i % 5)] for i in range(N_ROWS))]


def write(path: Path, table: Table) -> Path:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    path.write_text(out.getvalue(), encoding="utf-8", newline="", errors="surrogatepass")
    return path


def ends_well(outcome: Outcome) -> bool:
    return outcome.code == 0 or (outcome.code == 1 and outcome.err.startswith("error: ") and "bug" not in outcome.err)


def commands(runs: Runs, path: Path) -> list[tuple[list[str], bytes]]:
    run = runs["forecasting"]
    data = [word for part in ("train", "valid", "test") for word in ("--set", f"data.{part}={json.dumps([str(path)])}")]
    forms = [
        "forecast RUN FILE --device cpu",
        "evaluate RUN FILE --device cpu",
        "doctor RECIPE DATA --seconds 0 --device cpu",
        "look RUN FILE --terminal --device cpu",
    ]
    names = {"RUN": run, "FILE": [str(path)], "RECIPE": run.parent / "recipe.toml", "DATA": data}
    return [(filled(form, **names), b"") for form in forms]


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_field_is_read_or_refused(place: str, runs: Runs, tmp_path: Path) -> None:
    """In Python, field by field, where a start of the program would take most of the time."""
    run = load(runs["forecasting"], "cpu")

    def forecast_all() -> list[str]:
        """The fields of which something else than a RegardError came."""
        wrong = []
        for name, field in FIELDS.items():
            path = write(tmp_path / "hostile.csv", PLACES[place](plain_table(), field))
            try:
                run.forecast(str(path))
            except RegardError:
                pass
            except Exception as error:
                wrong.append(f"{name}: {error!r}")
        return wrong

    assert bounded(forecast_all) == End("returned", [])


def test_every_command_ends_well(runs: Runs, tmp_path: Path) -> None:
    paths = [
        write(tmp_path / f"{i}.csv", place(plain_table(), field))
        for i, (place, field) in enumerate([(PLACES["a number"], "1e308"), (PLACES["a time"], "soon")])
    ]
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "bytes.csv").write_bytes(b"date,x\n" + NOT_TEXT["latin-1"] + b"\n")
    for path in (*paths, tmp_path / "empty.csv", tmp_path / "bytes.csv"):
        for outcome in within_limits(tmp_path, *commands(runs, path)):
            assert ends_well(outcome), outcome


def test_arrays_of_any_kind_are_read_or_refused(runs: Runs) -> None:
    run = load(runs["forecasting"], "cpu")
    arrays = [
        np.zeros((0, 2)),
        np.zeros((5, 2), complex),
        np.array([["a", "b"]] * 5),
        np.full((5, 2), np.nan),
        np.full((5, 2), 1e300),
        np.zeros(5),
        np.zeros((5, 2, 1)),
        np.zeros((5, 2), np.int8),
        np.array([[None, 1]] * 5),
    ]
    for array in arrays:
        end = bounded(lambda array=array: repr(run.forecast(array)))
        assert end.how == "returned" or "RegardError" in end.value[0], f"{array.dtype} {array.shape}: {end}"
