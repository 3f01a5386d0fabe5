"""`look` at a bag of words: its rows add up to the answer, and its n-grams are spelled as the data has them."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from rich.console import Console

import regard
from regard.errors import RegardError
from regard.models.bag import FEATURES
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from regard.viewer import page, picture, terminal
from regard.viewer.capture import Capture
from regard.viewer.ngrams import MOST_NGRAMS, look_at_ngrams

LINES = ["good\tThe film is good", "bad\tthe film is bad", "good\tnot bad at all", "bad\tnot good at all"] * 3
RECIPE = """
[task]
kind = "classification"
[data]
root = "{root}"
train = ["train.tsv"]
columns = ["2", "1"]
batch_tokens = 200
[tokenizer]
kind = "spaces"
vocab_size = 40
[model]
architecture = "bag"
features = "{features}"
ngrams = 2
n_features = 100
[training]
steps = 30
learning_rate = 0.1
schedule = "linear"
warmup = 0
"""


def trained(place: Path, features: str = "binary") -> Run:
    (place / "train.tsv").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    (place / "recipe.toml").write_text(RECIPE.format(root=place, features=features), encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / "run")
    start(prepared, place / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / "run", "cpu")


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize("features", FEATURES)
def test_the_rows_add_up_to_the_answer(features: str, tmp_path: Path) -> None:
    run = trained(tmp_path, features)
    text = "the film is not bad , not bad at all"
    map = run.look(text).pick("ngrams")
    answer = run.classify(text)
    found = softmax(map.weights.astype(np.float64).sum(0))
    assert map.keys == ["bad", "good"] and map.keys[int(found.argmax())] == answer.label
    assert found.max() == pytest.approx(answer.probability, abs=1e-6)
    assert map.queries[-1] == "(bias)" and {"not bad", "the film", "at all"} < set(map.queries)
    assert len(set(map.queries)) == len(map.queries)  # "not bad" once, though the text has it twice
    strongest = np.abs(map.weights[:-1]).max(1)
    assert (np.diff(strongest) <= 1e-6).all()


def test_the_whole_model_names_the_telling_pairs(tmp_path: Path) -> None:
    run = trained(tmp_path)
    map = run.look("").pick("vocabulary")
    votes = dict(zip(map.queries, map.weights, strict=True))
    assert {"is good", "not bad", "bad at"} <= {ngram for ngram, (_, good) in votes.items() if good > 0}
    assert {"is bad", "not good", "good at"} <= {ngram for ngram, (bad, _) in votes.items() if bad > 0}
    # In a text that has it once, an n-gram adds exactly this.
    in_text = run.look("not bad").pick("ngrams")
    np.testing.assert_allclose(in_text.weights[in_text.queries.index("not bad")], votes["not bad"], atol=1e-6)


def test_a_long_text_keeps_its_sum(tmp_path: Path) -> None:
    run = trained(tmp_path)
    run.model.keys[:90] = run.model.word = torch.arange(90)  # 90 words, all of them features
    words = [f"w{i}" for i in range(90)]
    run.model.weight.data.normal_(generator=torch.Generator().manual_seed(0))
    map = look_at_ngrams(run.model, words, ["bad", "good"], np.arange(90), "long").pick("ngrams")
    assert len(map.queries) == MOST_NGRAMS + 2 and map.queries[-2] == "(30 others)"
    whole = run.model.weight[:90].sum(0) + run.model.bias
    np.testing.assert_allclose(map.weights.sum(0), (whole - whole.mean()).detach(), atol=1e-4)


@pytest.mark.slow  # drawn by Matplotlib
def test_every_view(tmp_path: Path) -> None:
    capture = trained(tmp_path).look("not bad at all")
    stream = io.StringIO()
    terminal.show(capture.pick("ngrams"), Console(file=stream, width=80))
    row = next(line for line in stream.getvalue().splitlines() if line.strip().startswith("not bad"))
    against, for_it = (float(figure) for figure in row.split()[-2:])
    assert against == -for_it < 0
    picture.attention(capture.pick("ngrams"), tmp_path / "ngrams.png")
    assert (tmp_path / "ngrams.png").stat().st_size > 5000
    np.testing.assert_allclose(Capture.from_json(capture.to_json()).maps[0].weights, capture.maps[0].weights, atol=1e-6)
    with pytest.raises(RegardError, match="draw them with --png"):
        page.page(capture)


def test_a_text_without_known_words(tmp_path: Path) -> None:
    run = trained(tmp_path)
    run.model.keys[:] = torch.arange(10**6, 10**6 + 100)
    with pytest.raises(RegardError, match="knows no n-gram of this text"):
        run.look("nothing here")


def test_what_was_cut_is_not_looked_at_and_said(tmp_path: Path) -> None:
    run = trained(tmp_path)
    seen = run.look("not bad at all " * 100)
    assert run.classify("not bad at all " * 100).notes == list(seen.notes) == ["cut to the first 256 of 400 tokens"]
    assert Capture.from_json(seen.to_json()).notes == seen.notes and not run.look("not bad").notes


def test_the_picture_of_a_long_text_is_not_much_taller(tmp_path: Path) -> None:
    run = trained(tmp_path)
    heights = []
    for n in (1, 400):
        run.look("not bad at all " * n).save(tmp_path / "ngrams.png")
        heights.append(len(imread(tmp_path / "ngrams.png")))
    assert heights[1] < heights[0] + 300


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"part": 2}, "there is no part 2: the text has 1"),
        ({"layers": [0]}, "n-grams are one map, without layers, heads and vectors"),
        ({"vectors": True}, "n-grams are one map, without layers, heads and vectors"),
    ],
)
def test_what_a_bag_does_not_have_is_refused(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=message):
        trained(tmp_path).look("not bad", **settings)


def test_one_map_is_no_grid(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="ngrams is one map, of all layers and heads: draw it without grid"):
        trained(tmp_path).look("not bad").save(tmp_path / "grid.png", grid=True)
    assert not (tmp_path / "grid.png").exists()


def test_an_ngram_is_spelled_as_it_was(tmp_path: Path) -> None:
    run = trained(tmp_path)
    words = ["weiß", "Maß"]
    run.model.keys[:2] = run.model.word[:2] = torch.arange(2)
    assert look_at_ngrams(run.model, words, ["bad", "good"], np.arange(2), "").maps[0].queries[:2] == ["weiß", "maß"]
