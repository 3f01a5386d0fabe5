"""Episodes recorded from an environment, as JSONL."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import numpy as np

from regard.games.game import Action, Drawable, GameState
from regard.games.table import ANYHOW, Player, make_game, make_player

MOST_STEPS = 100_000  # of an episode that does not end


class Recorded(TypedDict):
    """A line of the file."""

    states: list[list[object]]
    actions: list[object]
    rewards: list[float]


def record_episodes(name: str, way: str, n: int, seed: int) -> Iterator[Recorded]:
    """n episodes of a game that is known by its name."""
    return record_from(make_game(name), n, seed, make_player(name, way))


def record_from(game: Drawable, n: int, seed: int = 0, player: Player = ANYHOW) -> Iterator[Recorded]:
    """n episodes of any environment with gymnasium's interface; each is a function of (seed, its number)."""
    return (record_one(game, player, [seed, i]) for i in range(n))


def record_one(game: Drawable, player: Player, seed: list[int]) -> Recorded:
    draw = np.random.default_rng(seed)
    state, _ = game.reset(seed=int(draw.integers(2**31)))
    game.action_space.seed(int(draw.integers(2**31)))
    skill = player.skill(draw)
    recorded = Recorded(states=[], actions=[], rewards=[])
    is_over = False
    while not is_over and len(recorded["rewards"]) < MOST_STEPS:
        action = player.act(game, state, skill, draw)
        recorded["states"].append(as_json(state))
        recorded["actions"].append(action_as_json(action))
        state, reward, ended, ran_out, _ = game.step(action)
        recorded["rewards"].append(float(reward))
        is_over = ended or ran_out
    return recorded


def as_json(state: GameState) -> list[object]:
    """Numbers as short as float32 has them."""
    if isinstance(state, np.ndarray):
        return [float(f"{number:.7g}") for number in state.reshape(-1).tolist()]
    return list(state)


def action_as_json(action: Action) -> object:
    whole = isinstance(action, int | np.integer)
    return int(action) if whole else [float(number) for number in np.asarray(action).reshape(-1)]


def write_episodes(path: Path, episodes: Iterator[Recorded]) -> tuple[int, list[float]]:
    """How many steps they have, and their returns.  The file is whole, or not there."""
    n_steps, returns = 0, []
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for episode in episodes:
            n_steps += len(episode["rewards"])
            returns.append(sum(episode["rewards"]))
            file.write(json.dumps(episode) + "\n")
    os.replace(unfinished, path)
    return n_steps, returns
