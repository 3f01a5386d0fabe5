"""Episodes: what is recorded is read; what is broken is named with its file, line and step."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.data.config import DataConfig
from regard.data.episodes.files import episode_parts, episodes_in, read_episodes
from regard.data.episodes.recording import record_episodes, record_from, write_episodes
from regard.errors import ConfigError, DataError
from regard.games.game import Choice
from regard.games.table import GAMES

FINE = {"states": [[0.5, 1], [1, 2]], "actions": [0, 1], "rewards": [0, 1.5]}


def written(folder: Path, *records: object) -> str:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (folder / "walks.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "walks.jsonl"


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("way", ["random", "mixed"])
def test_what_is_recorded_is_read(name: str, way: str, tmp_path: Path) -> None:
    recorded = list(record_episodes(name, way, 5, seed=1))
    assert recorded == list(record_episodes(name, way, 5, seed=1)) != list(record_episodes(name, way, 5, seed=2))
    n_steps, returns = write_episodes(tmp_path / "new" / "walks.jsonl", iter(recorded))
    episodes = read_episodes(["walks.jsonl"], tmp_path / "new")
    assert episodes.returns.tolist() == pytest.approx(returns) and n_steps == episodes.lengths.sum()
    for episode, record in zip(episodes.all, recorded, strict=True):
        assert episode.states.tolist() == record["states"]
        assert episode.actions.tolist() == record["actions"]
        assert episode.rewards.tolist() == record["rewards"]
    assert episodes.has_symbols == (name != "steer") and episodes.is_discrete == (name != "steer")
    assert episodes.places[-1] == "walks.jsonl:5"


class Counter:
    """An environment of somebody else: gymnasium's interface and nothing more."""

    def __init__(self) -> None:
        self.action_space = Choice(3)

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, object]]:
        self.total = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        self.total += action
        return np.array([self.total], np.float32), float(action), self.total > 4, False, {}


def test_any_environment_is_recorded(tmp_path: Path) -> None:
    recorded = list(record_from(Counter(), 4, seed=3))
    assert recorded == list(record_from(Counter(), 4, seed=3))
    for episode in recorded:
        assert np.cumsum([0, *episode["actions"][:-1]]).tolist() == [state[0] for state in episode["states"]]
        assert sum(episode["rewards"]) > 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": [0]}, "walks.jsonl:2 has 2 states, 1 actions, 2 rewards; an episode has as many of each"),
        ({"states": [], "actions": [], "rewards": []}, "walks.jsonl:2 is an episode without a step"),
        ({"states": [[0.5, 1], [1]]}, "walks.jsonl:2, step 2: this state has 1 parts, and the first has 2"),
        ({"states": [[], []]}, "walks.jsonl:2, step 1: this state has 0 parts"),
        ({"states": [[0.5, 1], [1, "x"]]}, "step 2: 'x' in the state is not a finite number; symbols and numbers do"),
        ({"states": [[0.5, 1], [1, None]]}, "walks.jsonl:2, step 2: None in the state is not a finite number"),
        ({"states": [[0.5, 1], [1, float("nan")]]}, "walks.jsonl:2, step 2: nan in the state is not a finite number"),
        ({"states": [[0.5, 1], [1, 10**400]]}, "step 2: 1000.* in the state is not a finite number"),
        ({"states": [["x" * 300], ["y"]]}, "walks.jsonl:2, step 1: a symbol has at most 200 characters"),
        ({"states": [["x"], ["y\0"]]}, "walks.jsonl:2, step 2: a symbol has at most 200 characters, and NUL is none"),
        ({"states": [["\ud800"], ["y"]]}, "half of a surrogate pair"),
        ({"states": [["x", "y"], ["x", "y"]]}, "walks.jsonl:2 has states of 2 symbols, and walks.jsonl:1 of 2 numbers"),
        ({"states": [1, 2]}, "walks.jsonl:2 has states of 1 numbers, and walks.jsonl:1 of 2 numbers"),
        ({"actions": [[0.5], [1.0]]}, "walks.jsonl:2 has actions of 1 numbers, and walks.jsonl:1 of one whole number"),
        ({"actions": [0, 0.5]}, "walks.jsonl:2, step 2: the action 0.5 is no whole number, and others are"),
        ({"actions": [0, True]}, "walks.jsonl:2, step 2: the action True is no whole number"),
        ({"actions": [0, -1]}, "walks.jsonl:2, step 2: actions are counted from 0 to 99,999, got -1"),
        ({"actions": ["up", "down"]}, "walks.jsonl:2, step 1: 'up' in the action is not a finite number"),
        ({"rewards": [0, float("inf")]}, "walks.jsonl:2, step 2: inf in the reward is not a finite number"),
        ({"rewards": [[0, 1], [0, 1]]}, "walks.jsonl:2 has rewards of 2 numbers; a reward is one number"),
        ({"rewards": 1.0}, "walks.jsonl:2 has 1.0 as 'rewards'; an episode is such as"),
    ],
)
def test_what_is_broken_is_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    file = written(tmp_path, FINE, {**FINE, **change})
    with pytest.raises(DataError, match=message):
        read_episodes([file], tmp_path)


def test_lines_that_are_no_episodes_are_named(tmp_path: Path) -> None:
    for line, message in (
        ("[1, 2]", "walks.jsonl:2 must be a JSON object"),
        ("{", "walks.jsonl:2 is not valid JSON"),
        ('{"states": []}', "walks.jsonl:2 has no 'actions'"),
    ):
        with pytest.raises(DataError, match=message):
            read_episodes([written(tmp_path, FINE, line)], tmp_path)
    with pytest.raises(DataError, match="no episodes found"):
        read_episodes([written(tmp_path, "")], tmp_path)
    with pytest.raises(ConfigError, match=r"walks.csv: episodes are read from .jsonl files"):
        read_episodes(["walks.csv"], tmp_path)


def test_what_is_not_used_is_noted(tmp_path: Path) -> None:
    episodes = read_episodes([written(tmp_path, FINE, {**FINE, "player": "random"})], tmp_path)
    assert episodes.notes.rows() == ["'player' is not used: 1 (first at walks.jsonl:2)"]


def test_shares_have_every_episode_once(tmp_path: Path) -> None:
    """Equal episodes are no copies of one another."""
    data = DataConfig(root=str(tmp_path), train=(written(tmp_path, *[FINE] * 40),), valid_share=0.2, test_share=0.2)
    parts = episode_parts(data)
    places = [place for part in (parts.train, parts.valid, parts.test) for place in part.places]
    assert sorted(places) == sorted(f"walks.jsonl:{i + 1}" for i in range(40))
    assert min(len(parts.train), len(parts.valid), len(parts.test)) > 0


def test_files_of_episodes_are_recognized(tmp_path: Path) -> None:
    assert episodes_in([tmp_path / written(tmp_path, FINE, FINE)]) is not None
    assert episodes_in([tmp_path / written(tmp_path, FINE, {"states": []})]) is None


def test_whole_numbers_are_choices_and_others_are_strengths(tmp_path: Path) -> None:
    push = {**FINE, "actions": [[1], [0]]}
    assert read_episodes([written(tmp_path, FINE)], tmp_path).is_discrete
    assert not read_episodes([written(tmp_path, push)], tmp_path).is_discrete
    assert np.array_equal(read_episodes([written(tmp_path, push)], tmp_path).actions, [[1.0], [0.0]])
