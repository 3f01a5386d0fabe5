"""The runs that all of these tests use, and the command line within limits."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for sibling in ("pairs", "commands"):  # the tiny runs, and the call of the command line, are theirs
    sys.path.insert(0, str(HERE.parent / sibling))

from tiny_runs import Runs  # noqa: E402


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("hostile"))
