"""Games: gymnasium's interface, equal seeds for equal episodes, and what each of them is there to show."""

import sys

import numpy as np
import pytest

from regard.errors import ConfigError, MissingLibrary
from regard.games.key_to_door import MOVES, SIDE, STEPS, THINGS, KeyToDoor, walk
from regard.games.luck import CHANCE, JACKPOT, SURE, Luck
from regard.games.table import GAMES, GOOD, make_game, make_player


def played(name: str, seed: int, rule=None) -> tuple[list[tuple], float]:
    """All states of an episode, and its return; without a rule any actions."""
    game = make_game(name)
    game.action_space.seed(seed)
    state, facts = game.reset(seed=seed)
    assert facts == {}
    states, total, is_over = [tuple(state)], 0.0, False
    while not is_over:
        state, reward, ended, ran_out, _ = game.step(rule(state) if rule else game.action_space.sample())
        states.append(tuple(state))
        total += reward
        is_over = ended or ran_out
        assert game.board().strip()
    return states, total


@pytest.mark.parametrize("name", GAMES)
def test_equal_seeds_give_equal_episodes(name: str) -> None:
    assert played(name, 3) == played(name, 3)
    assert played(name, 3, GOOD[name]) == played(name, 3, GOOD[name])
    assert len({str(played(name, seed)) for seed in range(20)}) > 1


@pytest.mark.parametrize("name", GAMES)
def test_a_good_rule_is_better_than_any_actions(name: str) -> None:
    good, random = (np.mean([played(name, seed, rule)[1] for seed in range(60)]) for rule in (GOOD[name], None))
    assert good > random + 0.5


def reaching(n: int) -> float:
    """The chance that a random walk of n steps comes to another square of a room, for all pairs of squares."""
    moves = np.zeros((SIDE**2, SIDE**2))
    for square in range(SIDE**2):
        row, column = divmod(square, SIDE)
        for down, right in MOVES.values():
            to = min(max(row + down, 0), SIDE - 1), min(max(column + right, 0), SIDE - 1)
            moves[square, to[0] * SIDE + to[1]] += 1 / len(MOVES)
    chances = []
    for goal in range(SIDE**2):
        stays = moves.copy()
        stays[goal] = np.eye(SIDE**2)[goal]
        chances += np.delete(np.linalg.matrix_power(stays, n)[:, goal], goal).tolist()
    return float(np.mean(chances))


@pytest.mark.parametrize("n", [1000, pytest.param(4000, marks=pytest.mark.slow)])  # three seconds
def test_random_walks_take_the_key_to_the_door_in_three_of_a_hundred(n: int) -> None:
    chance = reaching(STEPS) ** 2
    assert round(100 * chance, 1) == 3.2
    returns = [played("key-to-door", seed)[1] for seed in range(n)]
    assert abs(np.mean(returns) - chance) < 4 * np.sqrt(chance / n)


def test_the_door_opens_for_the_key_alone() -> None:
    """Of many walks that head for the door but not for the key, those with the key are those that are rewarded."""
    is_rewarded, has_key = [], []
    for seed in range(200):
        game = KeyToDoor()
        state, _ = game.reset(seed=seed)
        for _ in range(len(THINGS) * STEPS):
            state, reward, ended, ran_out, _ = game.step(walk(state) if state[0] == "door" else seed % 4)
            if ended or ran_out:
                break
        is_rewarded.append(reward == 1)
        has_key.append(game.has_key)
    assert is_rewarded == has_key
    assert 0 < sum(has_key) < 200
    assert all(played("key-to-door", seed, walk)[1] == 1 for seed in range(50))


def test_whether_the_key_was_taken_is_not_seen_later() -> None:
    """The same last room, with and without the key."""
    for seed in range(20):
        games = [KeyToDoor(), KeyToDoor()]
        states = [game.reset(seed=seed)[0] for game in games]
        for _ in range(2 * STEPS):
            actions = walk(states[0]), 0
            states = [game.step(action)[0] for game, action in zip(games, actions, strict=True)]
        assert games[0].has_key
        assert states[0] == states[1]
        assert states[0][0] == "door"


def test_a_bet_is_worth_less_than_what_is_sure() -> None:
    game = Luck()
    won = []
    for seed in range(3000):
        game.reset(seed=seed)
        won.append(game.step(1)[1])
    assert set(won) == {0.0, JACKPOT}
    assert abs(np.mean(won) - JACKPOT * CHANCE) < 0.25 < SURE


def test_an_unknown_game_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no game 'chess'; there are: key-to-door, luck, steer, and gymnasium:NAME"):
        make_game("chess")
    with pytest.raises(ConfigError, match="there is no rule for playing gymnasium:Pendulum-v1 well"):
        make_player("gymnasium:Pendulum-v1", "mixed")
    with pytest.raises(ConfigError, match="unknown way to play 'badly'"):
        make_player("luck", "badly")


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingLibrary, match=r"pip install '\.\[play\]' in a checkout"):
        make_game("gymnasium:CartPole-v1")


def test_gymnasium_never_imports_what_a_recipe_names() -> None:
    pytest.importorskip("gymnasium")
    for name in ("antigravity:CartPole-v1", "this", "../CartPole-v1", "CartPole"):
        with pytest.raises(ConfigError, match="gymnasium has no game"):
            make_game(f"gymnasium:{name}")


@pytest.mark.sampled("every case plays games of its own")
@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1"])
def test_rules_for_gymnasium_are_good(name: str) -> None:
    pytest.importorskip("gymnasium")
    name = f"gymnasium:{name}"
    good, random = (np.mean([played(name, seed, rule)[1] for seed in range(5)]) for rule in (GOOD[name], None))
    assert good > (475 if "Cart" in name else -150) > random
