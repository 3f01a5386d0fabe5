"""Tiny runs of several tasks behind one server."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for sibling in ("pairs", "hostile"):  # the tiny runs are theirs
    sys.path.insert(0, str(HERE.parent / sibling))

from tiny_runs import Runs  # noqa: E402

from regard.runs.run import Run, load  # noqa: E402

TASKS = (
    "translation",
    "language",
    "chat",
    "classification",
    "captions",
    "forecasting",
    "masked",
    "answers",
    "decisions",
)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def runs(folders: Runs) -> dict[str, Run]:
    return {task: load(folders[task], "cpu") for task in TASKS}
