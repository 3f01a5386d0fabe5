"""The small JSON files of a run: read as what they are, or not at all."""

import json
from pathlib import Path

from regard.config import Settings
from regard.errors import RunError


def read_record(path: Path) -> Settings | None:
    """A JSON object; None: the file is missing, damaged, or holds something else."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):  # ValueError: not UTF-8, not JSON, a number of 5,000 digits
        return None
    return record if isinstance(record, dict) else None


def read_result(run: Path) -> Settings:
    """result.json of a finished training, for those who need its figures."""
    path = run / "result.json"
    result = read_record(path)
    numbers = [] if result is None else [result.get(name) for name in ("steps", "tokens", "seconds")]
    if result is None or not all(type(number) in (int, float) for number in numbers):
        raise RunError(f"{path} is missing or damaged: it does not say how the training went; copy it again")
    return result
