"""regard fill, as a user calls it."""

import json
from pathlib import Path

import pytest
import torch
from calling import call

from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.training.prepare import prepare

RECIPE = """
[task]
kind = "masked"
window = 24

[data]
train = ["train.txt"]
valid = ["train.txt"]
batch_tokens = 200
max_length = 24

[tokenizer]
kind = "spaces"
vocab_size = 40
extra = ["<mask>"]

[model]
architecture = "stack"
causal = false
n_segments = 2
scale_embedding = false
d_model = 16
n_heads = 2
n_layers = 1
d_ff = 16
max_length = 32

[training]
steps = 4
warmup = 1
validate_every = 2
save_every = 4
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fill")
    (folder / "data").mkdir()
    text = "".join(f"the {animal} sees a tree . it sits there .\n" for animal in ("cat", "dog", "owl") * 4)
    (folder / "data" / "train.txt").write_text(text, encoding="utf-8")
    (folder / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    made = call(folder, "train", "tiny.toml", "--run", "run")
    assert made.code == 0, made.err
    return folder


def test_texts_given_get_words_with_probabilities(place: Path) -> None:
    found = call(place, "fill", "run", "the [MASK] sees [SEP] it [MASK] there .", "--top", "3")
    assert found.code == 0, found.err
    text, first, second = found.out.splitlines()
    assert "[MASK]" not in text and "[SEP]" in text
    for number, line in enumerate((first, second), start=1):
        place_, words = line.strip().split(": ")
        assert place_ == str(number) and len(words.split(", ")) == 3


def test_lines_in_lines_out(place: Path) -> None:
    lines = ["the [MASK] sees", "", "[MASK]", "nothing here"]
    found = call(place, "fill", "run", stdin="".join(f"{line}\n" for line in lines).encode())
    assert found.code == 0 and len(found.out.splitlines()) == len(lines)
    assert found.err.splitlines() == ["line 2: nothing is masked", "line 4: nothing is masked"]
    as_json = call(place, "fill", "run", "--json", "--top", "2", stdin=b"the [MASK] sees a [MASK]\n")
    record = json.loads(as_json.out)
    assert [len(words) for words in record["words"]] == [2, 2] and record["notes"] == []


@pytest.mark.slow  # a training of a batch
def test_the_doctor_looks_at_documents_and_learns_a_batch(place: Path) -> None:
    found = call(place, "doctor", "tiny.toml", "--seconds", "2")
    assert found.code == 0, found.err
    assert "lines, bytes" in found.out and "one batch by heart" in found.out


def test_what_is_evaluated(place: Path) -> None:
    found = call(place, "evaluate", "run", "--json")
    assert found.code == 0, found.err
    assert "next_accuracy" in found.out and "documents:lines|window:24" in found.out


def test_attention_to_what_is_hidden(place: Path) -> None:
    """Every head of a run that reads between <s> and </s>; a [MASK] there is the token, and all look both ways."""
    capture = load(place / "run", "cpu").look("the [MASK] sees")
    assert len(capture.maps) == 2
    for found in capture.maps:
        assert found.queries == found.keys == ["<s>", "the", "<mask>", "sees", "</s>"]
        assert found.weights.min() > 0 and found.weights.sum(1) == pytest.approx(1, abs=1e-5)


def test_a_run_of_another_task_fills_nothing(place: Path) -> None:
    recipe = RECIPE.replace('kind = "masked"\nwindow = 24', 'kind = "language"\nunit = "lines"\nwindow = 24')
    (place / "gpt.toml").write_text(recipe.replace("causal = false", "causal = true"), encoding="utf-8")
    assert call(place, "train", "gpt.toml", "--run", "gpt").code == 0
    refused = call(place, "fill", "gpt", "a [MASK]")
    assert refused.code == 1 and "was trained to write text, one token after the other and cannot fill" in refused.err


def test_a_classifier_begins_with_the_weights_of_the_reader_and_of_its_pooler(place: Path) -> None:
    lines = [f"the {animal} sees\t{label}\n" for animal, label in (("cat", "a"), ("dog", "b"), ("owl", "a"))]
    (place / "data" / "labeled.tsv").write_text("".join(lines), encoding="utf-8")
    settings = 'kind = "classification"\nframed = true\npooling = "first"\npooler = "tanh"'
    recipe = RECIPE.replace('kind = "masked"\nwindow = 24', settings).replace("train.txt", "labeled.tsv")
    (place / "labels.toml").write_text(recipe.replace("[data]", '[data]\ncolumns = ["1", "2"]'), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        prepared = prepare(Recipe.read("labels.toml"), place / "labels", weights_from=place / "run")
    own, theirs = prepared.model.state_dict(), load(place / "run", "cpu").model.state_dict()
    taken = [name for name in own if name.startswith(("reader.", "pooler."))]
    assert len(taken) > 10 and all(torch.equal(own[name], theirs[name]) for name in taken)
    assert set(own) - set(taken) == {"to_labels.weight", "to_labels.bias"}
    (row,) = [value for name, value in prepared.about.rows if name.startswith("weights from")]
    assert "pooler" in row and row.endswith("new: to_labels")
    assert call(place, "embed", "run", "--pooling", "first", stdin=b"the cat\n").code == 0
