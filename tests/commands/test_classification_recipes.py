"""The shipped recipes of bags on the real data, from the command line."""

import json
from pathlib import Path

import pytest
from calling import Call

DATA = Path(__file__).parents[2].parent / "shared" / "data"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.is_dir(), reason="the data are not here")]


@pytest.mark.parametrize(("recipe", "least"), [("sms-bag", 98.0), ("sst2-bag", 80.0), ("imdb-bag", 91.5)])
def test_a_bag_reaches_its_figure(regard: Call, tmp_path: Path, recipe: str, least: float) -> None:
    trained = regard("train", recipe, "--set", f"data.root={DATA}", "--run", "run", "--device", "cpu")
    assert trained.code == 0, trained.err
    found = json.loads(regard("evaluate", tmp_path / "run", "--json").out)
    assert found["accuracy"]["value"] >= least
    if recipe == "sms-bag":
        (spam,) = [row for row in found["labels"] if row["label"] == "spam"]
        assert spam["f1"] >= 93
    if recipe == "imdb-bag":
        answers = regard("classify", tmp_path / "run", stdin=b"this movie is so great\nthis movie is so bad\n")
        assert answers.out == "positive\nnegative\n"
