"""The games by the names that recipes and commands use, and how they can be played without learning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.choose import choose
from regard.errors import ConfigError
from regard.games.from_gymnasium import PREFIX, FromGymnasium, balance, swing
from regard.games.game import Action, Drawable, Game, GameState
from regard.games.key_to_door import KeyToDoor, walk
from regard.games.luck import Luck, take_the_sure
from regard.games.steer import Steer, push_to_mark

GAMES: dict[str, Callable[[], Game]] = {"key-to-door": KeyToDoor, "luck": Luck, "steer": Steer}

GoodAction = Callable[[Any], Action]  # a good action in a state of the kind that its game has
GOOD: dict[str, GoodAction] = {
    "key-to-door": walk,
    "luck": take_the_sure,
    "steer": push_to_mark,
    f"{PREFIX}CartPole-v1": balance,
    f"{PREFIX}Acrobot-v1": swing,
}


def make_game(name: str) -> Game:
    """An own game, or `gymnasium:CartPole-v1`."""
    check_game(name)
    return FromGymnasium(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else GAMES[name]()


def check_game(name: str) -> None:
    """Raise where there is no such game; whether gymnasium has one is seen when it is played."""
    if not name.startswith(PREFIX) and name not in GAMES:
        raise ConfigError(
            f"no game {name!r}; there are: {', '.join(GAMES)}, and {PREFIX}NAME, as in {PREFIX}CartPole-v1"
        )


@dataclass(frozen=True)
class Player:
    """Plays a good action with a chance that each episode draws anew, from `least` to `most`; otherwise any action."""

    rule: GoodAction | None
    least: float
    most: float

    def skill(self, draw: np.random.Generator) -> float:
        return self.least + (self.most - self.least) * draw.random()

    def act(self, game: Drawable, state: GameState, skill: float, draw: np.random.Generator) -> Action:
        return self.rule(state) if self.rule is not None and draw.random() < skill else game.action_space.sample()


ANYHOW = Player(None, 0.0, 0.0)  # any actions
SKILLS = {"random": (0.0, 0.0), "good": (1.0, 1.0), "mixed": (0.0, 1.0)}  # the chance of a good action


def make_player(game: str, way: str) -> Player:
    least, most = choose(SKILLS, way, "way to play")
    if most and game not in GOOD:
        raise ConfigError(f"there is no rule for playing {game} well; there is one for: {', '.join(GOOD)}")
    return Player(GOOD[game] if most else None, least, most)
