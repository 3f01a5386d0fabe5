"""`look` at XLNet: who looks at whom in its two streams is what the order allows, and replays the model's answer."""

import numpy as np
import pytest
import torch
from rich.console import Console

import regard
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from regard.viewer import page

TEXT = "the cat sat on the mat"
RECIPE = """
[task]
kind = "permutation"
window = 8
[data]
root = "{root}"
train = ["text.txt"]
batch_tokens = 64
max_length = 15
[tokenizer]
kind = "spaces"
vocab_size = 40
[model]
architecture = "xlnet"
d_model = 16
n_heads = 2
n_layers = 3
d_ff = 16
max_length = 16
[training]
steps = 2
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("xlnet")
    (place / "text.txt").write_text(f"{TEXT}\n" * 20, encoding="utf-8")
    (place / "recipe.toml").write_text(RECIPE.format(root=place), encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / "run")
    start(prepared, place / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / "run", "cpu")


def test_each_stream_sees_what_the_order_allows(run: Run) -> None:
    capture = run.look(TEXT)
    assert capture.kinds == ["query", "content"]
    assert capture.layers("query") == [0, 1, 2] and capture.layers("content") == [0, 1]
    words = capture.maps[0].queries
    turns = np.array([int(word.split("(")[1].rstrip(")")) for word in words])
    assert [word.split()[0] for word in words] == TEXT.split() and sorted(turns) == [1, 2, 3, 4, 5, 6]
    for map in capture.maps:
        seen = map.weights > 0
        earlier = turns[None] < turns[:, None]
        assert (seen == (earlier if map.kind == "query" else earlier | np.eye(6, dtype=bool))).all()
        has_looked = seen.any(1)
        np.testing.assert_allclose(map.weights[has_looked].sum(1), 1, atol=1e-5)
        assert has_looked.sum() == (5 if map.kind == "query" else 6)  # what comes first is predicted from nothing


def test_the_same_order_every_time_and_a_page(run: Run) -> None:
    one, other = run.look(TEXT), run.look(TEXT)
    assert one.maps[0].queries == other.maps[0].queries
    [map] = run.look(TEXT, layers=[2], heads=[1]).maps
    np.testing.assert_array_equal(map.weights, one.pick("query", 2, 1).weights)
    assert '"name":"content"' in page.page(one)
    with pytest.raises(RegardError, match="leave out the target"):
        run.look(TEXT, target="x")
