"""Files that commands write: asked before the work, and none is replaced unless told."""

from pathlib import Path

import pytest
from calling import Call

DRAWING = [
    ("look", "nowhere", "a text", "--png"),
    ("reach", "nowhere", "--png"),
    ("norms", "nowhere", "--png"),
    ("neighbors", "nowhere", "word", "--png"),
    ("forecast", "nowhere", "history.csv", "--png"),
    ("forecast", "nowhere", "history.csv", "--out"),
]


@pytest.mark.parametrize("command", DRAWING, ids=lambda command: f"{command[0]} {command[-1]}")
def test_no_file_is_replaced_unless_told(command: tuple[str, ...], regard: Call, tmp_path: Path) -> None:
    """Nor is any work done before: the run is not even looked for."""
    (tmp_path / "mine.png").write_bytes(b"mine")
    refused = regard(*command, "mine.png")
    assert refused.code == 1 and "mine.png exists and was left as it is" in refused.err
    told = regard(*command, "mine.png", "--overwrite")
    assert told.code == 1 and "nowhere is not a run folder" in told.err
    assert (tmp_path / "mine.png").read_bytes() == b"mine"


@pytest.mark.parametrize("told", [(), ("--overwrite",)])
@pytest.mark.parametrize("command", DRAWING, ids=lambda command: f"{command[0]} {command[-1]}")
def test_the_folder_of_a_file_is_asked_first(command: tuple[str, ...], told: tuple[str, ...], regard: Call) -> None:
    refused = regard(*command, "pictures/mine.png", *told)
    assert refused.code == 1 and "no folder pictures: make it first" in refused.err
