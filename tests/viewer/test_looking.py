"""`run.look` of language models: a Markov model's votes are its own numbers, a stack shows every head."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import regard
from regard.errors import RegardError
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.tasks.language.use import Continuations
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from regard.viewer import page, picture, terminal

LINES = [
    "check the program log and find out whether it ran please",
    "check the battery log and find out whether it ran down please",
]
TEXT = "check the battery log and find out whether it ran"

RECIPE = """
[task]
kind = "language"
unit = "lines"
window = 48
[data]
root = "{root}"
train = ["text.txt"]
batch_tokens = 64
max_length = 48
[tokenizer]
kind = "spaces"
vocab_size = 40
[training]
steps = 1
[model]
{model}
"""

MODELS = {
    "masked": 'architecture = "markov"\nkind = "masked"\nreach = 0\nsmoothing = "none"',
    "skips": 'architecture = "markov"\nkind = "skips"\nreach = 4',
    "chain": 'architecture = "markov"',
    "stack": 'architecture = "stack"\nd_model = 16\nn_heads = 2\nn_layers = 2\nd_ff = 16\nmax_length = 64',
    "convolutional": 'architecture = "convolutional"\nd_model = 8',
}


def trained(name: str, place: Path) -> Run:
    (place / "text.txt").write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    (place / "recipe.toml").write_text(RECIPE.format(root=place, model=MODELS[name]), encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / name)
    start(prepared, place / name, torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / name, "cpu")


@pytest.mark.parametrize("name", ["masked", "skips"])
def test_votes_are_those_of_the_model(name: str, tmp_path: Path) -> None:
    run = trained(name, tmp_path)
    capture = run.look(TEXT)
    start, words = Continuations(run.tokenizer, "lines").begin(TEXT)
    ids = [*start, *words]
    votes, ballots = capture.pick("votes"), capture.pick("ballots")
    assert votes.queries == votes.keys == ["<s>", *TEXT.split()]
    np.testing.assert_array_equal(votes.weights, run.model.weights(torch.tensor(ids)).numpy())
    cast = run.model.votes(torch.tensor(ids)).numpy()
    columns = [run.tokenizer.lookup(word)[0] for word in ballots.keys]
    np.testing.assert_array_equal(ballots.weights, cast[:, columns])
    predicted = votes.weights[-1] @ ballots.weights  # weights · votes is what the model says comes next
    said = run.model(torch.tensor(ids), Ragged([len(ids)]))[-1].exp().numpy()
    np.testing.assert_allclose(predicted, said[columns], atol=1e-6)
    assert list(predicted) == sorted(predicted, reverse=True) and predicted[0] == pytest.approx(said.max())


def test_the_mask_points_at_the_battery(tmp_path: Path) -> None:
    capture = trained("masked", tmp_path).look(TEXT)
    votes, ballots = capture.pick("votes"), capture.pick("ballots")
    [best] = votes.strongest()[-1]
    assert votes.keys[best] == "battery" and votes.weights[-1, best] == 1
    assert ballots.keys[0] == "down" and ballots.queries[best] == "battery … ran"
    assert ballots.weights[best, 0] == 1


@pytest.mark.slow  # drawn by Matplotlib
def test_votes_are_shown_by_every_view(tmp_path: Path) -> None:
    capture = trained("masked", tmp_path).look(TEXT)
    console = Console(width=200, record=True, file=io.StringIO())
    terminal.show(capture.pick("votes"), console)
    shown = console.export_text()
    assert "Whose votes count\n" in shown and "battery 100%" in shown
    for kind in capture.kinds:
        picture.attention(capture.pick(kind), tmp_path / f"{kind}.png")
        assert (tmp_path / f"{kind}.png").stat().st_size > 5000
    assert '"name":"votes"' in page.page(capture) and '"has_heads":false' in page.page(capture)


def test_a_stack_shows_every_head_of_the_text(tmp_path: Path) -> None:
    run = trained("stack", tmp_path)
    capture = run.look(TEXT, vectors=True)
    assert capture.kinds == ["self"] and capture.layers("self") == capture.heads("self") == [0, 1]
    for map in capture.maps:
        assert map.keys == ["<s>", *TEXT.split()]
        np.testing.assert_allclose(map.weights.sum(1), 1, atol=1e-5)
        assert not np.triu(map.weights, 1).any() and map.value_vectors is not None
    [one] = run.look(TEXT, layers=[1], heads=[0]).maps
    np.testing.assert_array_equal(one.weights, capture.pick("self", 1, 0).weights)


def test_a_long_text_is_looked_at_in_parts(tmp_path: Path) -> None:
    run = trained("stack", tmp_path)
    sentences = [f"{TEXT} {word}." for word in ("down", "please", "out", "log", "it", "ran", "the", "and")]
    whole = [run.look(" ".join(sentences), part=part) for part in (1, 2)]
    assert [capture.n_parts for capture in whole] == [2, 2] and run.look(TEXT).n_parts == 1
    shown = []
    for part, capture in enumerate(whole, start=1):
        text = capture.title.removeprefix(f"part {part} of 2: ")
        shown.append(text)
        for map, alone in zip(capture.maps, run.look(text).maps, strict=True):
            np.testing.assert_array_equal(map.weights, alone.weights)
    assert " ".join(shown) == " ".join(sentences), "split between sentences, and nothing is lost"


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("chain", {}, "a chain has no votes"),
        ("convolutional", {}, "no attention to look at"),
        ("stack", {"layers": [2]}, "there is no layer 2; the model has 2"),
        ("stack", {"target": "please"}, "leave out the target"),
        ("stack", {"source": ""}, "give a text"),
        ("stack", {"source": "check " * 64, "part": 3}, "there is no part 3: the text has 2"),
        ("stack", {"part": 2}, "there is no part 2: the text has 1"),
    ],
)
def test_what_cannot_be_looked_at(name: str, arguments: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=message):
        trained(name, tmp_path).look(**{"source": TEXT, **arguments})  # type: ignore[arg-type]
