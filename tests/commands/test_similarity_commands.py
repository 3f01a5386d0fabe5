"""Pairs of texts become vectors that are near: the loss, what is measured, and searching."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from calling import call

import regard
from regard.errors import ConfigError, RegardError
from regard.nn.layout import Layout, Ragged
from regard.runs.recipe import Recipe
from regard.tasks.searching import search, unit
from regard.tasks.setup import Use
from regard.tasks.similarity.batches import ContrastBatch
from regard.tasks.similarity.task import Similarity, SimilarityConfig, shares_text
from regard.tasks.similarity.verbs import SearchTexts
from regard.training.prepare import prepare

RECIPE = """
[task]
kind = "similarity"
metric = "accuracy"

[data]
root = "{root}"
train = ["train.a", "train.b"]
valid = ["valid.a", "valid.b"]
max_length = 20
batch_tokens = 400

[tokenizer]
vocab_size = 300

[model]
architecture = "stack"
causal = false
d_model = 32
n_heads = 2
n_layers = 1
d_ff = 64
max_length = 40
dropout = 0.0

[training]
steps = 60
schedule = "constant"
learning_rate = 0.005
warmup = 5
validate_every = 60
save_every = 60
"""
ANIMALS = {"cat": "meow", "dog": "woof", "cow": "moo", "hen": "cluck", "fox": "yip", "owl": "hoot"}
COLORS = ("red", "blue", "white", "black")


def write_pairs(folder: Path) -> Path:
    pairs = [(f"a {color} {animal}", f"{color}: {sound}") for color in COLORS for animal, sound in ANIMALS.items()]
    for part, chosen in (("train", pairs), ("valid", pairs[::3])):
        for ending, side in (("a", 0), ("b", 1)):
            (folder / f"{part}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in chosen), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE.format(root=folder), encoding="utf-8")
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    assert call(folder, "train", write_pairs(folder), "--run", "run", "--device", "cpu").code == 0
    return folder


class Fixed(torch.nn.Module):
    """A model whose vectors are given."""

    def __init__(self, rows: torch.Tensor):
        super().__init__()
        self.rows = rows

    def vectors(self, tokens: torch.Tensor, layout: Layout) -> torch.Tensor:
        return self.rows


def test_the_loss_is_the_equation(tmp_path: Path) -> None:
    task = prepare(Recipe.read(str(write_pairs(tmp_path)), ["task.temperature=0.5"]), tmp_path / "run").task
    torch.manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(6, 4), dim=-1)
    texts = torch.tensor([[0, 1, 2], [3, 4, 4]])  # the second texts of the last two pairs are equal
    batch = ContrastBatch(["x"] * 3, torch.zeros(6, dtype=torch.long), Ragged([1] * 6), texts)
    a, b = rows[:3].tolist(), rows[3:].tolist()

    def score(i: int, j: int) -> float:
        return math.exp(sum(x * y for x, y in zip(a[i], b[j], strict=True)) / 0.5)

    seen = {0: (0, 1, 2), 1: (0, 1), 2: (0, 2)}  # by i, the j that it is compared with
    wanted = -sum(
        math.log(score(i, i) / sum(score(i, j) for j in seen[i]))
        + math.log(score(i, i) / sum(score(j, i) for j in seen[i]))
        for i in range(3)
    )
    assert float(task.nats(Fixed(rows), batch, 0.0)) == pytest.approx(wanted / 2, rel=1e-5)


def test_a_pair_that_shares_a_text_is_no_negative() -> None:
    texts = torch.tensor([[0, 0, 1], [5, 6, 6]])
    assert shares_text(texts).tolist() == [[False, True, False], [True, False, True], [False, True, False]]
    assert shares_text(texts, slice(1, 3)).tolist() == shares_text(texts)[1:].tolist()


def test_it_learns_which_texts_belong_together(place: Path) -> None:
    run = regard.load(place / "run", "cpu")
    assert isinstance(run.task, Similarity)
    figures = {metric.name: metric.value for metric in run.measure().metrics}
    assert figures["accuracy"] > 80 and figures["mrr"] > 0.85  # by chance 12.5
    corpus = (place / "train.b").read_text(encoding="utf-8").splitlines()
    result = run.search("a white hen", corpus, n=3)
    assert result.nearest[0].text == "white: cluck" and len(result.nearest) == 3
    assert result.nearest[0].line == corpus.index("white: cluck") + 1
    cosines = [near.cosine for near in result.nearest]
    assert cosines == sorted(cosines, reverse=True) and cosines[0] <= 1.0001


def test_the_command_gives_the_nearest_lines(place: Path) -> None:
    asked = call(place, "search", "run", "train.b", "a white hen", "--n", "2", "--device", "cpu")
    assert asked.code == 0, asked.err
    first, second = (line.split("\t") for line in asked.out.splitlines())
    assert first[2] == "white: cluck" and float(first[0]) >= float(second[0])
    both = call(place, "search", "run", "train.b", "--json", "--device", "cpu", stdin=b"a white hen\na red fox\n")
    records = [json.loads(line) for line in both.out.splitlines()]
    assert [record["query"] for record in records] == ["a white hen", "a red fox"]
    assert records[0]["nearest"][0]["line"] == int(first[1]) and len(records[0]["nearest"]) == 5
    (place / "empty.txt").write_text("")
    nothing = call(place, "search", "run", "empty.txt", "a hen", "--device", "cpu")
    assert nothing.code == 1 and "the corpus has no texts" in nothing.err


def test_searching_is_the_cosine_of_vectors() -> None:
    vectors = {"q": [1.0, 0.0], "far": [-2.0, 0.0], "near": [3.0, 0.1], "side": [0.0, 1.0], "nothing": [0.0, 0.0]}

    def embed(use: object, ask: object) -> np.ndarray:
        return np.array([vectors[line] for line in ask.lines])  # type: ignore[attr-defined]

    use = Use(None, None, None)  # type: ignore[arg-type]
    (result,) = search(embed, use, SearchTexts(["q"], ["far", "nothing", "side", "near"], n=9))
    assert [near.text for near in result.nearest] == ["near", "nothing", "side", "far"]
    assert [near.line for near in result.nearest] == [4, 2, 3, 1] and result.nearest[-1].cosine == -1
    assert np.allclose(np.linalg.norm(unit(np.array([[3.0, 4.0], [0.0, 0.0]])), axis=-1), [1, 0])
    with pytest.raises(RegardError, match="no texts"):
        search(embed, use, SearchTexts(["q"], []))


def test_settings_that_cannot_be_are_refused() -> None:
    for settings in ({"pooling": "middle"}, {"temperature": 0.0}, {"metric": "bleu"}):
        with pytest.raises(ConfigError):
            SimilarityConfig(**settings)
