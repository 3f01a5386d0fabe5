"""The shipped recipe of the CNN-RNN on generated shapes: while it writes a noun, it looks at what the noun names."""

import json
from pathlib import Path

import pytest
from calling import call

from regard.data.corpora.shapes import generate


@pytest.mark.slow
def test_a_captioner_looks_at_what_it_names(tmp_path: Path) -> None:
    """Minutes on two cores."""
    shapes = tmp_path / "data" / "shapes"
    generate().write(shapes)
    assert call(tmp_path, "train", "shapes-cnn-rnn", "--device", "cpu").code == 0
    measured = json.loads(call(tmp_path, "evaluate", "runs/shapes-cnn-rnn", "--json", "--device", "cpu").out)
    assert {metric["name"]: metric["value"] for metric in measured["metrics"]}["BLEU-1"] > 95
    for files, least in (([], 90), ([shapes / "held-out.csv", shapes / "images.zip"], 80)):
        asked = ["point", "runs/shapes-cnn-rnn", shapes / "boxes.jsonl", *files, "--json", "--device", "cpu"]
        values = {metric["name"]: metric["value"] for metric in json.loads(call(tmp_path, *asked).out)["metrics"]}
        assert values["all nouns"] >= least, values
        assert values["pointing at the center"] < 20 and values["pointing anywhere"] < 20, values
