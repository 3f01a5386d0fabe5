"""`look` at recurrent nets: every gate and state is what the equations give, in the order of the text."""

import io
from itertools import pairwise
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
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from regard.viewer import terminal, units
from regard.viewer.gates import GATES
from regard.viewer.units import draw_gates, how_to_read

TEXT = "the film is not bad"
RECIPE = """
[task]
kind = "{kind}"
[data]
root = "{root}"
train = ["train.tsv"]
{columns}
batch_tokens = 64
[tokenizer]
kind = "spaces"
vocab_size = 40
[model]
architecture = "recurrent"
cell = "{cell}"
bidirectional = {both}
d_model = 6
d_hidden = 5
n_layers = 2
[training]
steps = 2
"""


def trained(place: Path, cell: str, kind: str = "language") -> Run:
    (place / "train.tsv").write_text("the film is good\tgood\nthe film is not bad\tbad\n" * 9, encoding="utf-8")
    is_labeled = kind == "classification"
    columns = 'columns = ["1", "2"]' if is_labeled else ""
    text = RECIPE.format(kind=kind, root=place, columns=columns, cell=cell, both=str(is_labeled).lower())
    (place / "recipe.toml").write_text(text, encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / "run")
    start(prepared, place / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / "run", "cpu")


def σ(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(x: np.ndarray, weights: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The equations of `regard.nn.recurrent.LSTM`, one gate at a time, in float64."""
    U, V, b_U, b_V = weights
    n = len(V) // 4
    h, c, rows = np.zeros(n), np.zeros(n), []
    for x_t in x:
        i, f, g, o = (U[k * n :][:n] @ x_t + b_U[k * n :][:n] + V[k * n :][:n] @ h + b_V[k * n :][:n] for k in range(4))
        c = σ(f) * c + σ(i) * np.tanh(g)
        h = σ(o) * np.tanh(c)
        rows.append({"forget": σ(f), "update": σ(i), "output": σ(o), "candidate": np.tanh(g), "cell": c, "hidden": h})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def gru(x: np.ndarray, weights: list[np.ndarray]) -> dict[str, np.ndarray]:
    U, V, b_U, b_V = weights
    n = len(V) // 3
    h, rows = np.zeros(n), []
    for x_t in x:
        (ur, uz, ug), (vr, vz, vg) = (
            [W[k * n :][:n] @ vector + b[k * n :][:n] for k in range(3)]
            for W, vector, b in ((U, x_t, b_U), (V, h, b_V))
        )
        candidate = np.tanh(ug + σ(ur + vr) * vg)
        h = σ(uz + vz) * h + (1 - σ(uz + vz)) * candidate
        rows.append({"reset": σ(ur + vr), "update": σ(uz + vz), "candidate": candidate, "hidden": h})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize(("cell", "equations"), [("lstm", lstm), ("gru", gru)])
def test_gates_and_states_are_those_of_the_equations(cell: str, equations: object, tmp_path: Path) -> None:
    run = trained(tmp_path, cell)
    capture = run.look(TEXT)
    ids = torch.tensor(run.task.encode(TEXT))
    layout = Ragged([len(ids)])
    reader = run.model.reader  # type: ignore[union-attr]
    rows = reader.embedding(ids, layout).detach().double().numpy()
    for layer, _, module in run.model.cells():
        expected = equations(rows, [p.detach().double().numpy() for p in module.kernel.parameters()])  # type: ignore[operator]
        for name, values in expected.items():
            map = capture.pick(name, layer, 0)
            assert map.queries[-5:] == TEXT.split() and map.keys[-1] == f"unit {values.shape[1] - 1}"
            np.testing.assert_allclose(map.weights, values, atol=1e-6)
        gates = [name for name in GATES if name in expected]
        means = capture.pick("gates", layer, 0)
        assert means.keys == gates
        np.testing.assert_allclose(means.weights, np.stack([expected[n].mean(1) for n in gates], 1), atol=1e-6)
        rows = expected["hidden"]
    with torch.no_grad():
        np.testing.assert_allclose(run.model(ids, layout).numpy(), rows, atol=1e-6)  # what the next word is read off


def test_a_layer_that_reads_backwards_is_shown_in_the_order_of_the_text(tmp_path: Path) -> None:
    run = trained(tmp_path, "lstm", "classification")
    capture = run.look(TEXT)
    ids = torch.tensor(run.task.encode(TEXT))
    with torch.no_grad():
        both = run.model.reader(ids, Ragged([len(ids)])).numpy()  # type: ignore[union-attr]
    assert capture.heads("hidden") == [0, 1]
    np.testing.assert_allclose(np.hstack([capture.pick("hidden", 1, way).weights for way in (0, 1)]), both, atol=1e-6)
    assert capture.pick("hidden").layer == 1 and capture.pick("hidden").head == 0  # no mean of different units
    [layer] = {map.layer for map in run.look(TEXT, layers=[1], heads=[1]).maps}
    assert layer == 1
    with pytest.raises(RegardError, match="there is no head 2; the model has 2"):
        run.look(TEXT, heads=[2])


def test_a_plain_rnn_has_a_state_and_no_gates(tmp_path: Path) -> None:
    assert trained(tmp_path, "rnn").look(TEXT).kinds == ["hidden"]


def test_a_picture_says_how_to_read_what_is_in_it() -> None:
    lstm_kinds = ["forget", "update", "output", "candidate", "cell", "hidden"]
    lstm, gru, rnn = map(how_to_read, (lstm_kinds, ["reset", "update", "candidate", "hidden"], ["hidden"]))
    assert "Gates go from closed" in lstm and "Candidates and states go" in lstm
    assert lstm.endswith("The cell state is shaded to its strongest number.")
    assert lstm.startswith(gru) and "cell" not in gru
    assert "gates" not in rnn.lower() and "candidates" not in rnn.lower() and "States go from brown" in rnn


@pytest.mark.slow  # drawn by Matplotlib
def test_gates_in_the_terminal_and_drawn(tmp_path: Path) -> None:
    capture = trained(tmp_path, "gru").look(TEXT)
    stream = io.StringIO()
    terminal.show(capture.pick("gates"), Console(file=stream, width=80))
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert ["reset", "update"] in rows
    reset, update = next((float(x), float(y)) for word, x, y in (row for row in rows if len(row) == 3) if word == "bad")
    np.testing.assert_allclose(capture.pick("gates").weights[-1], [reset, update], atol=6e-4)
    draw_gates(capture, tmp_path / "gates.png")
    assert (tmp_path / "gates.png").stat().st_size > 10_000


def test_gates_of_what_a_classifier_reads(tmp_path: Path) -> None:
    run = trained(tmp_path, "lstm", "classification")
    seen = run.look(TEXT + " good" * 300)
    assert len(seen.pick("hidden").queries) == 256 and seen.notes == ("cut to the first 256 of 305 tokens",)
    with pytest.raises(RegardError, match="no queries, keys and values: leave out the vectors"):
        run.look(TEXT, vectors=True)


@pytest.mark.slow  # drawn by Matplotlib
@pytest.mark.parametrize("n", [5, 90])
def test_words_of_gates_do_not_overlap(n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    blank = units.blank
    monkeypatch.setattr(units, "blank", lambda *size: figures.append(blank(*size)) or figures[-1])
    run = trained(tmp_path, "lstm", "classification")
    draw_gates(run.look(" ".join((TEXT.split() * n)[:n])), tmp_path / "gates.png")
    panels = [axes for axes in figures[0].axes if axes.get_title()]
    bottom = [axes.get_xticklabels() for axes in figures[0].axes if axes.get_images() and axes.get_xticklabels()][-1]
    places = [word.get_window_extent() for word in bottom]
    assert len(places) > 4 and all(left.x1 <= right.x0 for left, right in pairwise(places))
    limits = {axes.get_title(): axes.get_images()[0].get_clim() for axes in panels}
    assert limits["Forget gate"] == (0, 1) and limits["Candidate"] == limits["Hidden state"] == (-1, 1)
