"""Games of gymnasium, such as CartPole: the extra `play`."""

import re

import numpy as np

from regard.errors import ConfigError, need
from regard.games.game import Action, ActionSpace, Outcome

PREFIX = "gymnasium:"
NAME = re.compile(r"[A-Za-z0-9]+-v\d+")  # nothing with a colon: gymnasium would import a module of that name


class FromGymnasium:
    """One of the environments that come with gymnasium; its board are the numbers of its state."""

    def __init__(self, name: str):
        gymnasium = need("gymnasium", "play")
        if not NAME.fullmatch(name) or name not in gymnasium.registry:
            near = sorted(known for known in gymnasium.registry if NAME.fullmatch(known))
            raise ConfigError(f"gymnasium has no game {name!r}; it has: {', '.join(near)}")
        self.environment = gymnasium.make(name)
        n = number_of_actions(self.environment.action_space)
        self.action_names = tuple(map(str, range(n)))
        self.state: np.ndarray = np.zeros(0)

    @property
    def action_space(self) -> ActionSpace:
        return self.environment.action_space

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, object]]:
        self.state, facts = self.environment.reset(seed=seed)
        return self.state, facts

    def step(self, action: Action) -> Outcome:
        outcome = self.environment.step(action)
        self.state = outcome[0]
        return outcome

    def board(self) -> str:
        return "  ".join(f"{number:+.3f}" for number in np.asarray(self.state, np.float64).reshape(-1))


def number_of_actions(space: object) -> int:
    """0: they are numbers."""
    spaces = need("gymnasium.spaces", "play")
    if isinstance(space, spaces.Discrete) and int(space.start) == 0:
        return int(space.n)
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return 0
    raise ConfigError(f"only games with actions 0 .. n - 1 or with a row of numbers can be played, not {space}")


def balance(state: np.ndarray) -> int:
    """CartPole: push the cart under the pole, by where the pole leans and turns, and back to the middle."""
    position, speed, angle, turning = (float(number) for number in state)
    return int(angle + 0.3 * turning + 0.03 * position + 0.08 * speed > 0)


def swing(state: np.ndarray) -> int:
    """Acrobot: push the second link the way that it is turning."""
    return 2 if float(state[5]) > 0 else 0
