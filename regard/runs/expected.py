"""expected.json of a run: what its outputs are like on input such as it was trained on, so that others can be noted."""

import json
import math
from pathlib import Path

from regard.errors import RunError
from regard.runs.durable import write_file
from regard.runs.records import read_record

EXPECTED = "expected.json"


def write_expected(run: Path, figures: dict[str, float]) -> None:
    """Figures by name, as the task measured them; without any there is no file."""
    if figures:
        write_file(run / EXPECTED, json.dumps(figures, indent=2).encode())
    else:
        (run / EXPECTED).unlink(missing_ok=True)


def read_expected(run: Path) -> dict[str, float]:
    """{} of a run whose training kept nothing."""
    path = run / EXPECTED
    if not path.is_file():
        return {}
    figures = read_record(path)
    if figures is None or not all(is_figure(value) for value in figures.values()):
        raise RunError(f"{path} is corrupted: it must hold figures by name; without it, unusual input gets no note")
    return figures


def is_figure(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
