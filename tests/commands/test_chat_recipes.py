"""The shipped chat recipes: a preference for short answers is learned, and little is lost."""

import json
from pathlib import Path

import pytest
from calling import call

from regard.data.corpora.instructions import generate


@pytest.mark.slow
def test_short_answers_win_and_perplexity_stays(tmp_path: Path) -> None:
    """Minutes on two cores: both recipes as they are shipped."""
    generate().write(tmp_path / "data" / "instructions")
    assert call(tmp_path, "train", "chat-tiny").code == 0
    assert call(tmp_path, "train", "chat-preference", "--from", "runs/chat-tiny").code == 0
    report = json.loads(call(tmp_path, "evaluate", "runs/chat-preference", "runs/chat-tiny", "--json").out)
    assert report["wins_percent"] >= 90, report
    assert report["perplexity_ratio"] <= 1.05, report
