"""How far gradients reach in trained models: a plain RNN forgets, attention does not, and a window ends sharply."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from calling import call
from rich.console import Console

from regard.data.batching.streams import Stream
from regard.data.corpora.grammar import generate
from regard.data.files.plain import PlainText
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.tasks.language.batches import make_batch
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

RECIPE = """
[task]
kind = "language"
unit = "text"
window = 48
shown = 0
[data]
root = "{root}"
train = ["text.txt"]
test_share = 0.2
batch_tokens = 400
max_length = 32
[tokenizer]
kind = "words"
vocab_size = 100
[model]
{model}
[training]
steps = 12
schedule = "constant"
learning_rate = 0.01
warmup = 0
"""

MODELS = {
    "rnn": 'architecture = "recurrent"\ncell = "rnn"\nd_model = 16\nd_hidden = 16\nn_layers = 1',
    "relu": 'architecture = "recurrent"\ncell = "relu_rnn"\nd_model = 16\nd_hidden = 16\nn_layers = 1',
    "attention": 'architecture = "stack"\nd_model = 16\nn_heads = 2\nn_layers = 1\nd_ff = 16\nmax_length = 64',
    "window": 'architecture = "convolutional"\nd_model = 16\nn_layers = 3\nkernel = 2\nmax_length = 64',
    "counted": 'architecture = "markov"',
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reach")
    lines = [pair.source for pair in generate(2000).train[:80]]
    (place / "text.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for name, model in MODELS.items():
        (place / f"{name}.toml").write_text(RECIPE.format(root=place, model=model), encoding="utf-8")
        prepared = prepare(Recipe.read(str(place / f"{name}.toml")), place / name)
        start(prepared, place / name, torch.device("cpu"), False, Screen(Console(quiet=True)))
    return place


def test_an_rnn_forgets_and_attention_does_not(place: Path) -> None:
    asked = ("--distance", "40", "--passages", "8", "--json", "--device", "cpu")
    outcome = call(place, "reach", "rnn", "attention", "window", *asked)
    assert outcome.code == 0, outcome.err
    found = {row["run"]: row for row in json.loads(outcome.out)}
    norms = {name: np.array(row["norms"]) for name, row in found.items()}
    assert all(len(row) == 41 for row in norms.values()) and found["rnn"]["passages"] == 8
    falls = norms["rnn"][1:] / norms["rnn"][:-1]
    assert norms["rnn"][40] < 1e-4 * norms["rnn"][0] and np.exp(np.log(falls).mean()) < 0.8
    assert norms["attention"][1:].min() > 0.1 * norms["attention"][1:].max()
    assert norms["window"][:4].min() > 0 and not norms["window"][4:].any()  # 1 + 3 layers of two tokens each
    assert found["window"]["faded"] == 4 and found["attention"]["faded"] is None
    assert found["rnn"]["faded"] == 1 + np.flatnonzero(norms["rnn"] >= 0.01 * norms["rnn"][0]).max()


def test_it_is_the_gradient_of_the_last_loss(place: Path, tmp_path: Path) -> None:
    """By differences: a small push of the state after one token changes the loss by push · gradient."""
    run = load(place / "rnn", "cpu")
    found = run.reach(distance=5, n_passages=1)
    model = run.model.double()
    text = PlainText.read(("text.txt",), str(place))
    lines = text.divide(int(0.8 * text.n_characters))[1]
    batch = make_batch(Stream(lines, "text", run.tokenizer, tmp_path), np.array([[0, 6]]))
    stack, rows, push = model.reader.stack, model.reader.embedding.weight[batch.tokens], 1e-5

    def loss(n_read: int, change: torch.Tensor) -> float:
        """Of the token after the sixth, where the state after so many is another."""
        _, (state,) = stack.carry(rows[:n_read], Ragged([n_read]), stack.start(1, rows))
        _, (last,) = stack.carry(rows[n_read:], Ragged([6 - n_read]), [state + change])
        return float(torch.nn.functional.cross_entropy(last[0] @ model.output_table.T, batch.labels[-1:]))

    with torch.no_grad():
        for distance in range(6):
            changes = push * torch.eye(16, dtype=torch.double)
            as_it_is = loss(6 - distance, torch.zeros(16, dtype=torch.double))
            slopes = [(loss(6 - distance, change) - as_it_is) / push for change in changes]
            assert np.linalg.norm(slopes) == pytest.approx(found.norms[distance], rel=1e-3)


def test_the_table_and_the_picture(place: Path) -> None:
    outcome = call(place, "reach", "rnn", "attention", "--distance", "20", "--text", "text.txt", "--png", "reach.png")
    assert outcome.code == 0, outcome.err
    firsts = [line.split("│")[1].strip() for line in outcome.out.splitlines() if line.count("│") > 2]
    assert firsts == ["1", "2", "4", "8", "16", "20", "below 1% from"]
    assert (place / "reach.png").read_bytes()[:4] == b"\x89PNG" and "reach.png" in outcome.out
    note = "after another number of steps, the order of the runs can be another"
    assert note in outcome.out
    assert note not in call(place, "reach", "rnn", "--distance", "20").out  # one run has no order


def test_jacobians_are_measured_beside_gradients(place: Path) -> None:
    asked = ("--distance", "6", "--jacobians", "--passages", "3")
    outcome = call(place, "reach", "rnn", *asked, "--json", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    [row] = json.loads(outcome.out)
    assert row["passages"] == 3 and row["norms"][0] == 1 and len(row["norms"]) == 7
    V = load(place / "rnn", "cpu").model.reader.stack.forwards[0].weights().V
    assert 0 < row["norms"][1] <= float(torch.linalg.matrix_norm(V, 2).detach())  # J = diag(1 - h²) V
    shown = call(place, "reach", "rnn", *asked, "--png", "jacobians.png", "--device", "cpu").out
    assert "‖∂h_T/∂h‖ at a distance" in shown and (place / "jacobians.png").read_bytes()[:4] == b"\x89PNG"


def test_the_norms_of_a_training_are_those_of_its_steps(place: Path) -> None:
    outcome = call(place, "norms", "rnn", "attention", "--json")
    assert outcome.code == 0, outcome.err
    rnn, _ = json.loads(outcome.out)
    written = [json.loads(line) for line in (place / "rnn" / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in written if row["kind"] == "train"]
    assert rnn["norms"] == [row["grad_norm"] for row in steps] and rnn["steps"] == list(range(1, 13))
    assert rnn["clip"] == 1.0 and rnn["last_loss"] == steps[-1]["loss"]
    (place / "norms.png").touch()
    shown = call(place, "norms", "rnn", "attention", "--png", "norms.png", "--overwrite")
    n_clipped = sum(row["grad_norm"] > 1 for row in steps)
    assert shown.code == 0 and f"{n_clipped / 12:.1%}" in shown.out
    assert (place / "norms.png").read_bytes()[:4] == b"\x89PNG"
    refused = call(place, "norms", "counted")  # which takes no steps
    assert refused.code == 1 and "has no gradient norms: name the folder of a run that was trained" in refused.err
    refused = call(place, "norms", "nowhere")
    assert refused.code == 1 and "nowhere is not a run folder" in refused.err


def with_weights(run: Path, name: str, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Path:
    """A copy of the run beside it, with other weights."""
    other = Path(shutil.copytree(run, run.with_name(name), dirs_exist_ok=True))
    weights = safetensors.torch.load_file(run / "model.safetensors")
    safetensors.torch.save_file(
        {name: change(name, tensor).contiguous() for name, tensor in weights.items()}, other / "model.safetensors"
    )
    return other


def test_gradients_that_explode_say_so(place: Path) -> None:
    run = with_weights(place / "relu", "exploding", lambda _, weights: 100 * weights)
    exploded = call(place, "reach", run, "--distance", "40", "--device", "cpu")
    assert exploded.code == 1
    assert "in passages of 41 tokens, the gradient is not a finite number from distance 0 on; lower the" in exploded.err
    exploded = call(place, "reach", run, "--distance", "40", "--jacobians", "--device", "cpu")
    assert exploded.code == 1 and "the states of this net are not finite numbers after " in exploded.err
    for more in ((), ("--jacobians",)):
        shown = call(place, "reach", run, "--distance", "8", *more, "--json", "--device", "cpu")
        assert shown.code == 0, shown.err
        [row] = json.loads(shown.out)
        assert row["faded"] is None and row["norms"][8] > 1e12 * row["norms"][0]


def test_norms_beyond_the_range_of_floats_are_shown(place: Path) -> None:
    """V = 1e6 I, and no token says anything: the states stay 0, and the Jacobian of 60 steps is 1e360 I."""
    V = 1e6 * torch.eye(16)
    run = with_weights(place / "rnn", "vast", lambda name, weights: V if "weight_hh" in name else 0 * weights)
    asked = ("reach", run, "--jacobians", "--distance", "60", "--passages", "1", "--device", "cpu")
    [row] = json.loads(call(place, *asked, "--json").out, parse_constant=pytest.fail)
    assert row["norms"][50] == pytest.approx(1e300) and row["norms"][52:] == [None] * 9
    shown = call(place, *asked, "--png", "vast.png")
    assert shown.code == 0 and "inf" in shown.out and (place / "vast.png").is_file()
    nothing = call(place, "reach", run, "--distance", "6", "--device", "cpu")  # all words are alike to this net
    assert nothing.code == 1 and "the gradient is 0 already at distance 0" in nothing.err


@pytest.mark.parametrize("jacobians", [(), ("--jacobians",)])
def test_weights_that_are_not_numbers_are_named(jacobians: tuple[str, ...], place: Path) -> None:
    run = with_weights(place / "rnn", "spoiled", lambda _, weights: np.nan * weights)
    refused = call(place, "reach", run, "--distance", "6", *jacobians, "--device", "cpu")
    assert refused.code == 1 and "the weights contain NaN" in refused.err


def test_a_grid_of_gates_has_all_kinds(place: Path) -> None:
    look = ("look", "rnn", "The animal", "--grid", "--png", "grid.png", "--device", "cpu")
    refused = call(place, *look, "--kind", "hidden")
    assert refused.code == 2 and "--grid draws all gates and states of a recurrent model" in refused.err
    assert not (place / "grid.png").exists()
    drawn = call(place, *look, "--kind", "hidden", "--terminal")  # which shows one kind
    assert drawn.code == 0 and (place / "grid.png").is_file(), drawn.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("counted",), "trained by counting"),
        (("attention", "--distance", "64"), "65 tokens do not fit the model's 64"),
        (("attention", "--distance", "5", "--jacobians"), "along the states of a recurrent net"),
        (("rnn", "--distance", "9000"), "has no passage of 9001"),
        (("nowhere",), "is not a run folder"),
    ],
)
def test_what_cannot_be_measured(arguments: tuple[str, ...], message: str, place: Path) -> None:
    refused = call(place, "reach", *arguments)
    assert refused.code == 1 and message in refused.err
