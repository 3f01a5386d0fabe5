"""ELMo from the command line: pre-trained, taken over by a classifier; vectors of lines from runs of every kind."""

import json
from pathlib import Path

import numpy as np
import pytest
from calling import Call, call
from safetensors.numpy import load_file

from regard.errors import RegardError
from regard.nn.pooling import POOLINGS
from regard.runs.run import load

PRE_TRAINING = """
[task]
kind = "bidirectional"
window = 16

[data]
root = "{root}"
train = ["train.fr", "reviews.tsv"]
columns = ["2"]
valid_share = 0.02
batch_tokens = 512

[tokenizer]
vocab_size = 400

[model]
architecture = "bilm"
d_model = 12

[training]
steps = 30
schedule = "constant"
learning_rate = 0.01
warmup = 5
validate_every = 15
"""
CLASSIFYING = """
[task]
kind = "classification"

[data]
root = "{root}"
train = ["labeled.tsv"]
columns = ["1", "2"]
valid_share = 0.2
batch_tokens = 256

[model]
architecture = "elmo"
d_model = 12
d_task = 5

[training]
steps = 6
schedule = "constant"
learning_rate = 0.01
warmup = 1
validate_every = 3
"""
WRITING = """
[task]
kind = "language"
window = 16
shown = 0

[data]
root = "{root}"
train = ["train.fr"]

[model]
architecture = "recurrent"
d_model = 8
d_hidden = 8

[training]
steps = 2
"""
LINES = ["The animal didn't cross the street because it was too tired.", "Dogs bark.", "", "The street was wide."]


@pytest.fixture(scope="module")
def films(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs: elmo/ (pre-trained), sentiment/ (a classifier on it), language/ and one/ (a translator)."""
    place = tmp_path_factory.mktemp("films")
    root = lab / "data"
    lines = (root / "train.en").read_text(encoding="utf-8").splitlines()[:300]
    (root / "reviews.tsv").write_text("".join(f"{i % 2}\t{line}\n" for i, line in enumerate(lines)), encoding="utf-8")
    labeled = "".join(f"{line}\t{len(line) % 2}\n" for line in lines)
    (root / "labeled.tsv").write_text(labeled, encoding="utf-8")
    recipes = {"elmo": PRE_TRAINING, "sentiment": CLASSIFYING, "language": WRITING}
    for name, recipe in recipes.items():
        (place / f"{name}.toml").write_text(recipe.format(root=root), encoding="utf-8")
        began = ("--from", "elmo") if name == "sentiment" else ()
        trained = call(place, "train", f"{name}.toml", "--run", name, *began, "--device", "cpu")
        assert trained.code == 0, trained.err
    (place / "one").symlink_to(lab / "one")
    return place


@pytest.mark.slow  # two whole trainings
def test_both_directions_learn_from_plain_text_and_from_a_column(films: Path) -> None:
    rows = [json.loads(line) for line in (films / "elmo" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [row["loss"] for row in rows if "lr" in row]
    assert losses[-1] < losses[0] - 0.5
    run = load(films / "elmo", "cpu")
    what, figures = run.measure()[:2]
    assert what and {metric.name for metric in figures} >= {"loss", "perplexity", "bits_per_byte"}


def test_a_frozen_classifier_keeps_the_weights_that_it_took(films: Path) -> None:
    before, after = (load_file(films / run / "model.safetensors") for run in ("elmo", "sentiment"))
    assert len(before) == 17
    for name, weight in before.items():
        assert np.array_equal(after[f"reader.{name}"], weight), name
    assert after["reader.w"].any()  # the mix was learned
    card = (films / "sentiment" / "README.md").read_text(encoding="utf-8")
    assert "backwards, embedding, forwards; new: gamma, task, to_labels, w" in card
    tokenizers = [(films / run / "tokenizer.json").read_bytes() for run in ("elmo", "sentiment")]
    assert tokenizers[0] == tokenizers[1]


def test_a_classifier_on_frozen_features_goes_on_as_if_never_stopped(films: Path) -> None:
    few = ("--set", "training.steps=3", "--set", "training.save_every=3", "--device", "cpu")
    assert call(films, "train", "sentiment.toml", "--run", "half", "--from", "elmo", *few).code == 0
    went_on = call(films, "train", "half", "--resume", "--set", "training.steps=6", "--device", "cpu")
    assert went_on.code == 0, went_on.err
    whole, half = (films / run / "checkpoints" / "step-6" / "model.safetensors" for run in ("sentiment", "half"))
    assert whole.read_bytes() == half.read_bytes()


def test_a_frozen_model_needs_weights_to_begin_with(films: Path) -> None:
    alone = call(films, "train", "sentiment.toml", "--run", "alone", "--device", "cpu")
    assert alone.code == 1 and "--from RUN" in alone.err and "model.frozen=false" in alone.err
    assert not (films / "alone").exists()


@pytest.mark.sampled("every case is a run of the command of its own")
# ELMo gives the mix, whatever reads it; a language model its last layer; a translator its encoder's rows.
@pytest.mark.parametrize(("name", "width"), [("elmo", 24), ("sentiment", 24), ("language", 8), ("one", 32)])
def test_a_line_has_the_same_vector_alone_and_among_others(films: Path, name: str, width: int) -> None:
    run = load(films / name, "cpu")
    assert run.embed([]).shape == (0, width)
    for pooling in POOLINGS:
        if pooling == "first" and name == "language":
            with pytest.raises(RegardError, match="reads from left to right knows nothing of what follows; use last"):
                run.embed(LINES, pooling)
            continue
        vectors = run.embed(LINES, pooling)
        assert vectors.shape == (4, width) and vectors.dtype == np.float32
        for line, vector in zip(LINES, vectors, strict=True):
            np.testing.assert_allclose(run.embed([line], pooling)[0], vector, atol=1e-5)
        assert np.abs(vectors[0] - vectors[1]).max() > 1e-4


def test_an_empty_line_has_a_vector_too(films: Path) -> None:
    assert not load(films / "sentiment", "cpu").embed([""]).any()  # it reads the tokens alone: there are none
    assert load(films / "language", "cpu").embed([""]).any()  # it reads the end of a line before


def test_a_layer_of_elmo_is_the_mean_of_its_rows(films: Path) -> None:
    run = load(films / "elmo", "cpu")
    layers = [run.embed(LINES, layer=layer) for layer in range(3)]
    np.testing.assert_allclose(np.mean(layers, 0), run.embed(LINES), atol=1e-5)
    ids = run.tokenizer.encode(LINES[1])
    embeddings = run.model.embedding.weight.detach().numpy()[ids].mean(0)
    np.testing.assert_allclose(layers[0][1], np.tile(embeddings, 2), atol=1e-5)


def test_embed_writes_a_list_a_line_or_a_numpy_file(films: Path, tmp_path: Path) -> None:
    (films / "lines.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    printed = call(films, "embed", "sentiment", "lines.txt", "--device", "cpu")
    piped = call(films, "embed", "sentiment", "--device", "cpu", stdin="\n".join(LINES).encode())
    assert printed.code == 0 and printed.out == piped.out
    saved = call(films, "embed", "sentiment", "lines.txt", "--out", tmp_path / "v.npy", "--device", "cpu")
    assert saved.code == 0 and "4 vectors of 24 numbers" in saved.out
    vectors = np.load(tmp_path / "v.npy")
    assert np.array_equal(np.array([json.loads(row) for row in printed.out.splitlines()], np.float32), vectors)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sentiment", "--pooling", "median"), "median"),
        (("sentiment", "--layer", "3"), "0 (the embeddings) to 2"),
        (("sentiment", "--layer", "-1"), "there is no layer -1"),
        (("language", "--layer", "1"), "leave out the layer"),
        (("sentiment", "--out", "vectors.txt"), ".npy"),
        (("sentiment", "missing.txt"), "no file missing.txt"),
    ],
)
def test_mistakes_are_named(films: Path, arguments: tuple[str, ...], words: str) -> None:
    wrong = call(films, "embed", *arguments, "--device", "cpu", stdin=b"a line\n")
    assert wrong.code == 1 and words in wrong.err and wrong.out == ""


def test_a_line_that_is_too_long_for_the_model_is_split_and_said(films: Path) -> None:
    """Its vector is the mean of its parts'; those of other lines stay as they are."""
    both = call(films, "embed", "one", "--device", "cpu", stdin=b"short\n" + b"word " * 200)
    assert both.code == 0 and both.err == "line 2: split into 5, the mean of which is given\n"
    alone = json.loads(call(films, "embed", "one", "--device", "cpu", stdin=b"short\n").out)
    np.testing.assert_allclose(json.loads(both.out.splitlines()[0]), alone, atol=1e-5)
    filed = call(films, "embed", "one", "--out", "v.npy", "--device", "cpu", stdin=b"short\n" + b"word " * 200)
    assert filed.code == 0 and filed.err == both.err
    np.testing.assert_allclose(
        np.load(films / "v.npy"), [json.loads(line) for line in both.out.splitlines()], atol=1e-6
    )


def test_the_task_and_the_model_belong_together(films: Path, regard: Call) -> None:
    wrong = regard("train", films / "elmo.toml", "--set", "task.kind=language")
    assert wrong.code == 1 and "'bilm' cannot do the task 'language'" in wrong.err
    wrong = regard("train", films / "elmo.toml", "--set", "task.carry=true")
    assert wrong.code == 1 and "carry" in wrong.err
    wrong = regard("train", films / "elmo.toml", "--set", "task.unit=words")
    assert wrong.code == 1 and "unit must be one of" in wrong.err
