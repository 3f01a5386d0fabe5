"""What a game is: gymnasium's interface, and a board for a person.  Whatever obeys `Environment` can be played."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

GameState = Sequence[float] | Sequence[str] | np.ndarray  # numbers, or symbols: one for each thing that is seen
Action = int | np.ndarray  # the number of a discrete action, or the numbers (d_action) of a continuous one
Outcome = tuple[
    GameState, float, bool, bool, dict[str, object]
]  # state, reward, is over, ran out of time, further facts


class Environment(Protocol):
    """Gymnasium's interface (Towers et al. 2024): what a policy needs."""

    def reset(self, *, seed: int | None = None) -> tuple[GameState, dict[str, object]]:
        """Begin an episode; equal seeds give equal ones."""

    def step(self, action: Action) -> Outcome: ...


class ActionSpace(Protocol):
    """What can be done, as gymnasium's spaces have it."""

    def seed(self, seed: int | None = None) -> object: ...

    def sample(self) -> Action:
        """Any action, each equally likely."""


class Drawable(Environment, Protocol):
    """With actions to draw from, as every environment of gymnasium has them: it can be recorded."""

    @property
    def action_space(self) -> ActionSpace: ...


class Game(Drawable, Protocol):
    """With names and something to look at."""

    action_names: tuple[str, ...]  # of discrete actions, by number; (): they are numbers

    def board(self) -> str:
        """As it stands, in characters."""


@dataclass
class Choice:
    """The numbers 0 .. n - 1."""

    n: int
    draw: np.random.Generator = field(default_factory=np.random.default_rng)

    def seed(self, seed: int | None = None) -> object:
        self.draw = np.random.default_rng(seed)
        return seed

    def sample(self) -> int:
        return int(self.draw.integers(self.n))


@dataclass
class Interval:
    """d numbers, each from low to high."""

    low: float
    high: float
    d: int = 1
    draw: np.random.Generator = field(default_factory=np.random.default_rng)

    def seed(self, seed: int | None = None) -> object:
        self.draw = np.random.default_rng(seed)
        return seed

    def sample(self) -> np.ndarray:
        return self.draw.uniform(self.low, self.high, self.d)
