"""regard record, train, play, look and evaluate on a game, as a user calls them; and the mistakes that are named."""

import json
from pathlib import Path

import pytest
from calling import Call, call

RECIPE = """
[task]
kind = "decisions"
game = "GAME"
episodes = 20

[data]
root = "."
train = ["walks.jsonl"]
valid_share = 0.1
batch_tokens = 400

[model]
architecture = "stack"
d_model = 16
n_heads = 2
n_layers = 1
d_ff = 32
position = "none"
dropout = 0.0

[training]
steps = 60
schedule = "constant"
optimizer = "adamw"
learning_rate = 0.01
warmup = 5
validate_every = 30
save_every = 60
"""


def prepare(place: Path, game: str, n: int, *settings: str) -> Call:
    """Episodes, a recipe and a run in a folder; and the command line there."""
    recorded = call(place, "record", game, "walks.jsonl", "--episodes", str(n))
    assert recorded.code == 0 and f"walks.jsonl: {n:,} episodes" in recorded.out, recorded
    (place / "game.toml").write_text(RECIPE.replace("GAME", game))
    changes = [word for setting in settings for word in ("--set", setting)]
    trained = call(place, "train", "game.toml", "--run", "run", "--device", "cpu", *changes)
    assert trained.code == 0, trained.err
    return lambda *words: call(place, *words)


@pytest.fixture(scope="module")
def casino(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("casino")
    prepare(place, "luck", 400)
    return place


@pytest.fixture
def lucky(casino: Path) -> Call:
    return lambda *words: call(casino, *words)


def test_luck_is_no_skill(lucky: Call) -> None:
    """Who asks for the jackpot bets, and gets one of ten; who asks for what is sure gets it."""
    told = json.loads(lucky("evaluate", "run", "--json", "--device", "cpu").out)
    reached = {row["asked"]: row["reached"]["value"] for row in told["asked"]}
    assert reached[5.0] == 5.0
    assert reached[10.0] < 3
    played = lucky("play", "run", "--return", "10", "--episodes", "3", "--json", "--device", "cpu")
    episodes = [json.loads(line) for line in played.out.splitlines()]
    assert [episode["names"] for episode in episodes] == [["bet"]] * 3
    assert lucky("play", "run", "--return", "5", "--device", "cpu").out.splitlines() == [
        "choose", "step 1: sure, reward 5", "", "sure: 5", "asked 5, reached 5 in 1 steps (seed 0)",
    ]  # fmt: skip


@pytest.mark.slow  # drawn by Matplotlib
def test_a_run_is_looked_into_and_its_data_are_examined(tmp_path: Path) -> None:
    regard = prepare(tmp_path, "key-to-door", 60, "training.steps=5")
    looked = regard("look", "run", "--device", "cpu")
    assert looked.code == 0 and looked.out.startswith("seed 0, reached"), looked
    assert "Attention over steps" in looked.out
    of_file = regard("look", "run", "walks.jsonl:7", "--kind", "self", "--layer", "0", "--device", "cpu")
    assert of_file.code == 0 and of_file.out.startswith("walks.jsonl:7\n") and "return" in of_file.out, of_file
    page = regard("look", "run", "3", "--html", "page.html", "--png", "map.png", "--device", "cpu")
    assert page.code == 0 and (tmp_path / "page.html").stat().st_size and (tmp_path / "map.png").stat().st_size
    told = regard("doctor", "game.toml", "--seconds", "0", "--device", "cpu").out
    assert "episodes, steps" in told and "0: 2" in told and "symbols in each column of a state" in told
    measured = regard("evaluate", "run", "walks.jsonl", "--device", "cpu")
    assert measured.code == 0 and "games of key-to-door; walks.jsonl" in measured.out and "loss" in measured.out


def test_boards_are_shown_step_by_step(tmp_path: Path) -> None:
    regard = prepare(tmp_path, "key-to-door", 60, "training.steps=5", "task.conditioned=false", "task.critic=true")
    shown = regard("play", "run", "--device", "cpu").out
    assert shown.count("room 1 of 3") >= 8 and "step 1: " in shown and ", expecting " in shown
    assert "reached 0 in 24 steps" in shown or "reached 1 in" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["play", "run", "--return", "nan"], "expected a finite number"),
        (["play", "run", "--set", "beam=4"], "set decoding.beam = 1, not 4"),
        (["play", "run", "--set", "temperature=2"], "temperature is for sampling"),
        (["look", "run", "nothing.jsonl"], "no file nothing.jsonl"),
        (["look", "run", "walks.jsonl:999"], "walks.jsonl has no episode on line 999; the first is on line 1"),
        (["look", "run", "x", "--target", "y"], "this run reads episodes"),
        (["embed", "run"], "cannot embed; it can: play"),
        (["record", "luck", "walks.jsonl"], "walks.jsonl exists already"),
        (["record", "luck", "walks.csv"], "episodes are JSONL, so the name must end in .jsonl"),
        (["record", "chess", "new.jsonl"], "no game 'chess'"),
        (["evaluate", "run", "game.toml"], "game.toml: episodes are read from .jsonl files"),
        (["train", "game.toml", "--run", "new", "--set", "task.game=chess"], "no game 'chess'"),
        (["train", "game.toml", "--run", "new", "--set", "task.critic=true"], "set conditioned = false"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str, lucky: Call, casino: Path) -> None:
    refused = lucky(*words, "--device", "cpu") if words[0] != "record" else lucky(*words)
    assert refused.code == 1 and message in refused.err, refused
    assert not (casino / "new").exists() and not (casino / "new.jsonl").exists()
