"""Neighbors of a word and analogies: cosines against numpy, the tables, the picture, and what is no word."""

from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import regard
from regard.commands.neighbors import neighbors
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.text import Tokenizer, TokenizerConfig

WORDS = ["king", "man", "woman", "queen", "cat", "dog"]
TOKENIZER = Tokenizer.train(["the " + " ".join(WORDS)] * 3, TokenizerConfig(kind="words"))

app = typer.Typer()
app.command()(neighbors)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run in which " cat" and " dog" nearly agree, and a queen is a king who is a woman; a row more than tokens."""
    small = ["model.d_model=16", "model.n_heads=2", "model.n_layers=1", "model.d_ff=16"]
    recipe = Recipe.read("demo", small).with_vocabulary(TOKENIZER.vocab_size + 1)
    model = recipe.build_model().eval()
    vectors = model.word_vectors
    assert vectors is not None
    torch.nn.init.normal_(vectors, generator=torch.Generator().manual_seed(0))
    ids = {word: TOKENIZER.lookup(word)[0] for word in WORDS}
    with torch.no_grad():
        vectors[ids["dog"]] = 3 * vectors[ids["cat"]] + 0.01
        unit = {word: vectors[i] / vectors[i].norm() for word, i in ids.items()}
        vectors[ids["queen"]] = 5 * (unit["king"] - unit["man"] + unit["woman"])
        vectors[-1] = vectors[ids["cat"]]
    loaded = Run(Path("runs/fake"), recipe, TOKENIZER, model, "its weights")
    monkeypatch.setattr(regard, "load", lambda path: loaded, raising=False)
    return loaded


def call(*arguments: str) -> str:
    return CliRunner().invoke(app, ["runs/fake", *arguments], catch_exceptions=False).stdout


def test_cosines_equal_numpy(run: Run) -> None:
    [near] = run.neighbors("cat", n=100)
    assert run.neighbours("cat", n=100) == [near]  # its other spelling
    array = run.model.word_vectors.detach().double().numpy()[: TOKENIZER.vocab_size]  # type: ignore[union-attr]
    unit = array / np.linalg.norm(array, axis=1, keepdims=True)
    expected = unit @ unit[near.id]
    assert [one.id for one in near.neighbors] == [i for i in np.argsort(-expected) if i != near.id]
    assert [one.cosine for one in near.neighbors] == pytest.approx(
        expected[[one.id for one in near.neighbors]], abs=1e-6
    )
    assert near.neighbors[0].token == " dog" and near.neighbors[0].cosine > 0.99
    assert len(run.neighbors("cat")[0].neighbors) == 10


def test_an_analogy(run: Run) -> None:
    [near] = run.neighbors("king", minus="man", plus="woman", n=3)
    assert near.neighbors[0].token == " queen" and near.neighbors[0].cosine == pytest.approx(1, abs=1e-5)
    assert not {" king", " man", " woman"} & {one.token for one in near.neighbors}


def test_the_tables(run: Run) -> None:
    rows = [line for line in call("cat", "-n", "2").splitlines() if "0." in line or "1." in line]
    assert len(rows) == 2 and "␣dog" in rows[0] and "1.000" in rows[0]
    ids = ", ".join(str(TOKENIZER.lookup(word)[0]) for word in ("king", "man", "woman"))
    shown = " ".join(call("king", "--minus", "man", "--plus", "woman").split())
    assert f"␣king - man + woman (ids {ids})" in shown and "␣queen" in shown


def test_the_picture_has_a_color_for_each_class(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: dict[str, list[str]] = {}

    def draw(vectors: np.ndarray, labels: list[str], path: Path, classes: list[str], *_: object) -> None:
        assert vectors.shape == (len(labels), 16)
        drawn.clear()
        drawn.update({label: [kind] for label, kind in zip(labels, classes, strict=True)})

    monkeypatch.setattr("regard.viewer.plane.embeddings", draw)
    call("cat", "king", "-n", "1", "--png", str(tmp_path / "a.png"))
    assert drawn[" cat"] == drawn[" dog"] == ["cat"]
    (tmp_path / "classes.tsv").write_text("king\troyal\nqueen\troyal\ncat\tanimal\n", encoding="utf-8")
    call("cat", "--png", str(tmp_path / "b.png"), "--classes", str(tmp_path / "classes.tsv"))
    assert drawn == {" king": ["royal"], " queen": ["royal"], " cat": ["animal"]}


def test_the_picture_of_an_analogy_shows_where_it_leads(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[np.ndarray, list[str], list[str], list[int]]] = []

    def draw(
        vectors: np.ndarray, labels: list[str], path: Path, classes: list[str], marked: list[int], *_: object
    ) -> None:
        seen.append((vectors, labels, classes, marked))

    monkeypatch.setattr("regard.viewer.plane.embeddings", draw)
    arguments = ("king", "--minus", "man", "--plus", "woman", "-n", "2", "--png", str(tmp_path / "a.png"))
    call(*arguments)
    vectors, labels, classes, marked = seen[0]
    at = {label.strip(): row for label, row in zip(labels, vectors, strict=True)}
    assert {labels[i].strip() for i in marked} == {"king", "man", "woman", "analogy"}
    point = at["analogy"]
    kinds = {label.strip(): kind for label, kind in zip(labels, classes, strict=True)}  # in the legend
    assert kinds["analogy"] == kinds["queen"] == "king - man + woman" and kinds["man"] == "words of the analogy"
    assert {label[0] for label in labels if label.strip() in {*WORDS, "analogy"}} == {" "}  # none looks like an ending
    np.testing.assert_allclose(point, at["king"] - at["man"] + at["woman"], atol=1e-6)
    assert np.linalg.norm(at["king"]) == pytest.approx(1) and "queen" in at
    np.testing.assert_allclose(point / np.linalg.norm(point), at["queen"], atol=1e-5)
    (tmp_path / "classes.tsv").write_text("cat\tanimal\ndog\tanimal\n", encoding="utf-8")
    call(*arguments, "--classes", str(tmp_path / "classes.tsv"))
    assert {"cat", "dog", "king", "man", "woman", "analogy"} == {label.strip() for label in seen[1][1]}


def test_an_analogy_that_is_nothing(run: Run) -> None:
    with pytest.raises(RegardError, match="king - king is nothing: the words cancel each other"):
        run.neighbors("king", minus="king")


def test_the_picture_is_drawn(run: Run, tmp_path: Path) -> None:
    call("cat", "king", "--png", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("king", "is not a word, a tab and its class"),
        ("no such\tx", ":1: 'no"),
        ("cat\tanimal\nking\troyal\ncat\tpet", ":3: 'cat' is of class 'pet', and above of 'animal'"),
        ("cat\tanimal", "a picture needs two words with a class or more: add lines to"),
    ],
)
def test_a_class_that_is_none(run: Run, line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "classes.tsv").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(RegardError, match=message):
        call("cat", "--png", str(tmp_path / "b.png"), "--classes", str(tmp_path / "classes.tsv"))


def test_a_word_that_is_no_token(run: Run) -> None:
    with pytest.raises(RegardError, match=r"'the cat' is not one token of this run but \['the', ' cat'\]"):
        run.neighbors("the cat")
    with pytest.raises(RegardError, match="'qqq' is not one token"):
        run.neighbors("cat", plus="qqq")
    with pytest.raises(RegardError, match="at least 1, got 0"):
        run.neighbors("cat", n=0)
    with pytest.raises(RegardError, match="no word to find neighbors of"):
        run.neighbors("")


def test_the_message_about_a_text_is_short(run: Run) -> None:
    with pytest.raises(RegardError) as many:
        run.neighbors("the cat king " * 2000)
    assert "['the', ' cat', ' king', " in str(many.value) and len(str(many.value)) < 400
    with pytest.raises(RegardError, match="neither is any part of it") as none:
        run.neighbors("x" * 20_000)
    assert len(str(none.value)) < 200
