"""What each reaches in the same time."""

import json

import pytest
from typer.testing import CliRunner

import regard
from bench import equal_time


@pytest.fixture
def recipes(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the dog saw the cat and the cat saw the dog\n" * 60)
    for name, width in [("narrow", 8), ("wide", 16)]:
        (tmp_path / f"{name}.toml").write_text(f"""
[task]
kind = "language"
unit = "text"
window = 16
[data]
train = ["{text}"]
valid_share = 0.1
batch_tokens = 64
max_length = 15
[tokenizer]
kind = "characters"
[model]
architecture = "stack"
d_model = {width}
n_heads = 2
n_layers = 1
d_ff = 16
max_length = 16
[training]
steps = 1000
""")
    return [str(tmp_path / "narrow.toml"), str(tmp_path / "wide.toml")]


def test_each_is_trained_for_the_steps_that_fit(recipes, tmp_path, monkeypatch):
    done, train = [], equal_time.train

    def seconds_of_step(contender, device):
        done.append(("timed", contender.name))
        return 0.1 if "narrow" in contender.recipe else 0.2

    def training(contender, *rest):
        done.append(("trained", contender.name))
        return train(contender, *rest)

    monkeypatch.setattr(equal_time, "seconds_of_step", seconds_of_step)
    monkeypatch.setattr(equal_time, "train", training)
    app = equal_time.typer.Typer()
    app.command()(equal_time.main)
    files = ["--json", str(tmp_path / "outcomes.json"), "--picture", str(tmp_path / "outcomes.png")]
    files += ["--keep", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, [*recipes, "--seconds", "0.4", "--seed", "0", "--seed", "1", *files])
    assert result.exit_code == 0, result.output
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    names = [outcome["name"] for outcome in outcomes]
    assert done == [(what, name) for what in ("timed", "trained") for name in names]
    assert [outcome["steps"] for outcome in outcomes] == [4, 4, 2, 2]
    assert [outcome["tokens"] for outcome in outcomes] == [4 * 64, 4 * 64, 2 * 64, 2 * 64]
    assert len({outcome["figures"]["loss"] for outcome in outcomes}) == 4
    assert (tmp_path / "outcomes.png").read_bytes().startswith(b"\x89PNG")
    kept = {folder.name: regard.load(folder) for folder in (tmp_path / "runs").iterdir()}
    assert {name: run.recipe.training.seed for name, run in kept.items()} == {
        "narrow": 0, "narrow-1": 1, "wide": 0, "wide-1": 1
    }  # fmt: skip
    again = CliRunner().invoke(app, [*recipes, *files])
    assert again.exit_code == 2 and "another folder" in again.output


def test_a_figure_that_a_recipe_does_not_have_is_named(recipes, tmp_path, monkeypatch):
    monkeypatch.setattr(equal_time, "seconds_of_step", lambda contender, device: 0.1)
    app = equal_time.typer.Typer()
    app.command()(equal_time.main)
    options = ["--seconds", "0.1", "--picture", str(tmp_path / "p.png"), "--figure", "bleu"]
    result = CliRunner().invoke(app, [*recipes, *options])
    assert result.exit_code == 2 and "bleu" in result.output and "bits_per_byte" in result.output


def test_an_unknown_recipe_is_named(recipes):
    app = equal_time.typer.Typer()
    app.command()(equal_time.main)
    result = CliRunner().invoke(app, ["nothing"])
    assert result.exit_code == 2 and "nothing" in result.output
