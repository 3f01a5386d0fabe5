"""A recurrent translator behind the commands that the Transformer has."""

import json
from pathlib import Path

import pytest
import torch
from calling import Call, call

RECIPE = """
[data]
root = "{root}"
train = ["train.en", "train.fr"]
valid = ["valid.en", "valid.fr"]
test = ["held-out.en", "held-out.fr"]
max_length = 48
batch_tokens = 600

[tokenizer]
vocab_size = 400

[model]
architecture = "seq2seq"
d_model = 16
d_hidden = 24
n_layers = 2
recurrent_dropout = 0.1
max_length = 128

[training]
steps = 6
schedule = "constant"
learning_rate = 0.01
warmup = 2
validate_every = 3
save_every = 3

[task]
validation_lines = 4

[decoding]
beam = 2
length_ratio = 0.0
extra_length = 10
"""
SENTENCE = "The animal didn't cross the street because it was too tired."


@pytest.fixture(scope="module")
def place(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of `lab` with two runs: `whole`, and `plain` without attention."""
    place = tmp_path_factory.mktemp("seq2seq")
    (place / "recurrent.toml").write_text(RECIPE.format(root=lab / "data"), encoding="utf-8")
    for run, score in (("whole", "additive"), ("plain", "none")):
        train(place, "recurrent.toml", "--run", run, "--set", f"model.score={score}")
    return place


def train(place: Path, *arguments: str) -> None:
    """On one thread: small products wait for their second longer than they take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    trained = call(place, "train", *arguments, "--device", "cpu")
    torch.set_num_threads(before)
    assert trained.code == 0, trained.err


@pytest.mark.slow  # two trainings; tests/pairs resumes a recurrent translator too
def test_a_resumed_training_ends_bit_for_bit_the_same(place: Path) -> None:
    train(place, "recurrent.toml", "--run", "resumed", "--set", "training.steps=3")
    train(place, "resumed", "--resume", "--set", "training.steps=6")
    weights = [(place / run / "model.safetensors").read_bytes() for run in ("whole", "resumed")]
    assert weights[0] == weights[1]
    assert weights[0] != (place / "plain" / "model.safetensors").read_bytes()


@pytest.mark.slow  # drawn by Matplotlib
def test_alignments_are_drawn_and_written(place: Path) -> None:
    looked = call(place, "look", "whole", SENTENCE, "--png", "alignment.png", "--device", "cpu")
    assert looked.code == 0, looked.err
    assert (place / "alignment.png").read_bytes()[:4] == b"\x89PNG"
    assert "Cross-attention" in looked.out
    aligned = call(place, "translate", "whole", "--alignments", "--json", stdin=SENTENCE.encode())
    assert aligned.code == 0, aligned.err
    record = json.loads(aligned.out)
    n_said = len(record["translation"].split())
    for pair in record["alignment"].split():
        source, target = map(int, pair.split("-"))
        assert 0 <= source < len(SENTENCE.split()) and 0 <= target < n_said


def test_it_scores_what_it_writes_as_its_search_does(place: Path) -> None:
    record = json.loads(call(place, "translate", "whole", "--json", stdin=SENTENCE.encode()).out)
    (place / "source").write_text(SENTENCE + "\n", encoding="utf-8")
    (place / "said").write_text(record["translation"] + "\n", encoding="utf-8")
    scored = call(place, "score", "whole", "source", "said", "--json", "--device", "cpu")
    assert scored.code == 0, scored.err
    log_probs = json.loads(scored.out)["log_probs"]
    ended = "hit the length limit" not in record["notes"]
    assert sum(log_probs if ended else log_probs[:-1]) == pytest.approx(record["log_prob"], abs=1e-3)


def test_it_is_evaluated_beside_another_and_in_an_ensemble(place: Path, lab: Path) -> None:
    measured = call(place, "evaluate", "whole", "plain", "--json", "--device", "cpu")
    assert measured.code == 0, measured.err
    report = json.loads(measured.out)
    assert [metric["name"] for metric in report["runs"][0]["metrics"]][:1] == ["BLEU"] and report["paired"]
    both = call(place, "translate", "whole", "--with", "plain", stdin=SENTENCE.encode())
    assert both.code == 0 and both.out.count("\n") == 1, both.err


def test_what_it_does_not_have_is_said(place: Path) -> None:
    looked = call(place, "look", "plain", SENTENCE, "--png", "nothing.png")
    assert looked.code == 1 and "no attention to look at" in looked.err
    aligned = call(place, "translate", "plain", "--alignments", stdin=SENTENCE.encode())
    assert aligned.code == 1 and "no attention to look at" in aligned.err
    drawn = call(place, "look", "whole", "--positions", "positions.png")
    assert drawn.code == 1 and "this model has no position encoding to draw" in drawn.err
    assert not (place / "nothing.png").exists() and not (place / "positions.png").exists()


def test_show_lists_its_parts(regard: Call) -> None:
    shown = regard("show", "multi30k-deen-lstm")
    assert shown.code == 0 and "9,139,712" in shown.out and "bridge" in shown.out and "H200" not in shown.out
