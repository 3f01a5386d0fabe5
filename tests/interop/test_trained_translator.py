"""A translator that learned something goes out to every tool, and translates its dev set there as well as here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regard.commands.exchange import export
from regard.data.corpora.grammar import generate
from regard.interop.certifying.sides import OurScorer, read_again
from regard.runs.run import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's recipe with sines for positions, which every tool has."""
    place = tmp_path_factory.mktemp("trained")
    generate(3000).write(place / "data")
    settings = [f"data.root={place / 'data'}", "model.position=sinusoidal", "training.steps=250", "training.warmup=100"]
    given = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "regard", "train", "demo", "--run", str(place / "run"), "--device", "cpu", *given]
    subprocess.run(command, check=True, capture_output=True, timeout=900)
    return place / "run"


@pytest.mark.parametrize("to", ["hf", "onnx", "ctranslate2"])
def test_it_is_the_same_elsewhere(to: str, trained: Path, tmp_path: Path) -> None:
    export(trained, tmp_path / "out", to=to)
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["holds"]
    by_what = {finding["what"].split(",")[0]: finding for finding in certificate["findings"]}
    assert by_what["share of identical greedy outputs"]["value"] == 1
    if to != "hf":
        change = by_what["change of greedy BLEU"]
        assert abs(change["value"]) <= 0.1 and change["of"].startswith("200 lines of valid.en, valid.fr")
        assert float(change["what"].split("from ")[1]) > 20  # it does translate


def test_its_own_words_are_cut_as_it_writes_them(trained: Path) -> None:
    run = load(trained, "cpu")
    assert read_again(OurScorer(run), run) == ()
