"""regard neighbours: cosines against numpy, the table, the picture, a word that is no token."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import regard
from regard.commands.look import nearest, neighbours
from regard.errors import RegardError
from regard.text import Tokenizer, TokenizerConfig

TOKENIZER = Tokenizer.train(["the cat sat", "the dog sat"] * 3, TokenizerConfig(kind="words"))

app = typer.Typer()
app.command()(neighbours)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run in which " cat" and " dog" nearly agree; one row more than there are tokens."""
    embedding = torch.nn.Embedding(TOKENIZER.vocab_size + 1, 16)
    torch.nn.init.normal_(embedding.weight, generator=torch.Generator().manual_seed(0))
    cat, dog = TOKENIZER.lookup("cat") + TOKENIZER.lookup("dog")
    with torch.no_grad():
        embedding.weight[dog] = 3 * embedding.weight[cat] + 0.01
        embedding.weight[-1] = embedding.weight[cat]
    loaded = SimpleNamespace(tokenizer=TOKENIZER, model=SimpleNamespace(word_vectors=embedding.weight))
    monkeypatch.setattr(regard, "load", lambda path: loaded, raising=False)
    return Path("runs/fake")


def test_the_nearest_comes_first(run: Path) -> None:
    result = CliRunner().invoke(app, [str(run), "cat", "-n", "2"], catch_exceptions=False)
    rows = [line for line in result.stdout.splitlines() if "0." in line or "1." in line]
    assert len(rows) == 2 and "␣dog" in rows[0] and "1.000" in rows[0]


def test_the_picture_gets_vectors_and_labels(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: dict[str, object] = {}
    fake = ModuleType("regard.viewer.picture")
    fake.embeddings = lambda vectors, labels, path: drawn.update(n=len(vectors), labels=labels, path=path)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "regard.viewer.picture", fake)
    monkeypatch.setattr("regard.viewer.picture", fake, raising=False)
    CliRunner().invoke(app, [str(run), "cat", "--png", str(tmp_path / "a.png")], catch_exceptions=False)
    assert drawn["n"] == TOKENIZER.vocab_size
    assert set(drawn["labels"]) == {"<pad>", "<s>", "</s>", "<unk>", "the", "␣cat", "␣dog", "␣sat"}  # type: ignore[call-overload]
    assert drawn["path"] == tmp_path / "a.png"


def test_a_word_that_is_no_token(run: Path) -> None:
    with pytest.raises(RegardError, match=r"'the cat' is not one token of this run but \['the', ' cat'\]"):
        CliRunner().invoke(app, [str(run), "the cat"], catch_exceptions=False)


def test_the_message_about_a_text_is_short(run: Path) -> None:
    with pytest.raises(RegardError) as many:
        CliRunner().invoke(app, [str(run), "the cat sat " * 2000], catch_exceptions=False)
    assert "['the', ' cat', ' sat', " in str(many.value) and len(str(many.value)) < 400
    for text in ("", "x" * 20_000):
        with pytest.raises(RegardError, match="neither is any part of it") as none:
            CliRunner().invoke(app, [str(run), text], catch_exceptions=False)
        assert len(str(none.value)) < 200


def test_cosines_equal_numpy() -> None:
    vectors = torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
    array = vectors.numpy().astype(np.float64)
    unit = array / np.linalg.norm(array, axis=1, keepdims=True)
    expected = unit @ unit[7]
    found = nearest(vectors, 7, 49)
    assert list(found) == [n for n in np.argsort(-expected) if n != 7]
    assert list(found.values()) == pytest.approx(expected[list(found)], abs=1e-6)
