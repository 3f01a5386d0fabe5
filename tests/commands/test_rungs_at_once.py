"""Rungs of one ladder that several processes train: each finds its data whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.ladder.rungs import LANGUAGE, TRANSLATION

TINY = ("model.d_model=16", "model.d_hidden=16", "model.n_heads=2", "model.n_layers=1", "decoding.max_length=4")


@pytest.mark.slow  # four processes
def test_rungs_may_be_trained_at_the_same_time(tmp_path: Path) -> None:
    settings = [part for one in TINY for part in ("--set", one)]
    command = [sys.executable, "-m", "regard", "ladder", "--task", "translation", "--out", "out", "--device", "cpu"]
    command += ["--steps", "3", *settings]
    rungs = [subprocess.Popen([*command, "--rungs", name], cwd=tmp_path) for name in TRANSLATION.rungs]
    assert [rung.wait(timeout=300) for rung in rungs] == [0, 0, 0]
    together = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert together.returncode == 0 and together.stdout.count("trained already") == 3, together.stderr
    report = json.loads((tmp_path / "out" / "ladder.json").read_text(encoding="utf-8"))
    assert [row["rung"] for row in report["rungs"]] == list(TRANSLATION.rungs)


@pytest.mark.parametrize("ladder", [LANGUAGE, TRANSLATION])
def test_what_a_rung_may_be_reading_is_not_written_again(ladder, tmp_path: Path) -> None:
    ladder.data_table([], tmp_path)
    before = {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    ladder.data_table([], tmp_path)
    assert {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before
