"""A small GPT on the standard library completes code."""

import json
from pathlib import Path

import pytest
from calling import call

from regard.data.corpora.standard_library import gather

SMALL = (
    "data.max_length=63", "data.batch_tokens=1024", "tokenizer.vocab_size=1000", "task.window=64", "task.shown=0",
    "model.d_model=64", "model.n_heads=2", "model.n_layers=2", "model.d_ff=256", "model.max_length=64",
    "model.dropout=0.0", "training.steps=400", "training.learning_rate=0.006", "training.warmup=10",
    "training.ema=0.0", "training.validate_every=0", "training.compile=off",
)  # fmt: skip


@pytest.mark.slow
def test_a_gpt_completes_code(tmp_path: Path) -> None:
    import argparse  # some modules of one style, so that a minute is enough

    source = Path(argparse.__file__).parent
    few = tmp_path / "lib"
    few.mkdir()
    for path in sorted(source.glob("[a-p]*.py")):
        (few / path.name).write_bytes(path.read_bytes())
    gather(few, tmp_path / "data" / "python")
    settings = [part for one in SMALL for part in ("--set", one)]
    trained = call(tmp_path, "train", "python-code", "--run", "run", "--device", "cpu", *settings)
    assert trained.code == 0, trained.err
    asked = ("--json", "--length", "12", "--stop", "\\n", "--device", "cpu")
    found = call(tmp_path, "generate", "run", "\n    def __init__(", *asked).out
    text = json.loads(found)["texts"][0]["text"]
    assert text.startswith("self") and "\n" not in text
    report = json.loads(call(tmp_path, "evaluate", "run", "--json", "--device", "cpu").out)
    [bits] = [metric["value"] for metric in report["metrics"] if metric["name"] == "bits_per_byte"]
    assert bits < 3.2  # a byte of code holds 5 by its frequency alone
