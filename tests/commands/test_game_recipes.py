"""The shipped recipes of games, learned in a minute or two: what is asked for is reached, where it can be."""

import json
from pathlib import Path

import pytest
from calling import call

pytestmark = pytest.mark.slow


def reached(place: Path, recipe: str, run: str, *settings: str) -> dict[float | None, float]:
    """The mean return of a new run, by what was asked for; None of one that imitates."""
    changes = [word for setting in settings for word in ("--set", setting)]
    trained = call(place, "train", recipe, "--run", run, "--device", "cpu", "--set", "task.episodes=300", *changes)
    assert trained.code == 0, trained.err
    told = json.loads(call(place, "evaluate", run, "--json", "--device", "cpu").out)
    by_goal: dict[float | None, float] = {row["asked"]: row["reached"]["value"] for row in told["asked"]}
    return by_goal or {None: told["metrics"][0]["value"]}


def record(place: Path, game: str, file: str, *options: str) -> None:
    assert call(place, "record", game, f"data/{file}", *options).code == 0


@pytest.mark.parametrize(("recipe", "steps"), [("key-to-door", 150), ("key-to-door-lstm", 300)])
def test_a_thousand_random_walks_show_the_way(recipe: str, steps: int, tmp_path: Path) -> None:
    """Success is asked for and reached; imitation of the same walks fails; that of the best of them does not."""
    record(tmp_path, "key-to-door", "key-to-door/walks.jsonl", "--episodes", "1000")
    own = [f"training.steps={steps}"]
    assert reached(tmp_path, recipe, "asked", *own)[1.0] > 0.6
    imitated = ["task.conditioned=false", "task.even=false", *own]
    assert reached(tmp_path, recipe, "imitated", *imitated)[None] < 0.15
    assert reached(tmp_path, recipe, "filtered", "task.top=0.03", *imitated)[None] > 0.4


def test_luck_cannot_be_asked_for(tmp_path: Path) -> None:
    record(tmp_path, "luck", "luck/bets.jsonl", "--episodes", "2000")
    by_goal = reached(tmp_path, "luck", "run")
    assert by_goal[5.0] == 5.0 and by_goal[10.0] < 2


def test_pushes_of_any_strength_are_learned(tmp_path: Path) -> None:
    """Steer: good play costs about 2 on average, any play about 12."""
    record(tmp_path, "steer", "luck/bets.jsonl", "--play", "mixed", "--episodes", "600")
    own = ["task.game=steer", "task.even=true", "data.batch_tokens=1920", "training.steps=600", "task.targets=[-12.0]"]
    by_goal = reached(tmp_path, "luck", "run", *own, "task.asked=-1.5")
    assert by_goal[-1.5] > -3.5 and by_goal[-12.0] < by_goal[-1.5] - 3


def test_a_pole_is_balanced_as_long_as_asked(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    record(tmp_path, "gymnasium:CartPole-v1", "cartpole/play.jsonl", "--play", "mixed", "--episodes", "300")
    own = ["training.steps=500", "task.targets=[20.0, 100.0, 200.0, 300.0]", "task.asked=500.0"]
    by_goal = reached(tmp_path, "cartpole", "run", *own, "task.episodes=20")
    assert by_goal[500.0] > 400
    assert by_goal[20.0] < by_goal[100.0] < by_goal[200.0] < by_goal[500.0]
