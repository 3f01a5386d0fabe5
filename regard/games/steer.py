"""Steer: a point on a line is pushed to a mark, by pushes of any strength: the smallest game of continuous actions."""

import numpy as np

from regard.games.game import Action, Interval, Outcome

STEPS = 10
WIDTH = 41  # characters of the board


class Steer:
    """x += push, with a push from -1 to 1; each step costs the distance to the mark, |mark - x|.

    The state is (x, mark), both from -2 to 2.
    """

    action_names: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.action_space = Interval(-1.0, 1.0)

    def reset(self, *, seed: int | None = None) -> tuple[tuple[float, ...], dict[str, object]]:
        self.x, self.mark = np.random.default_rng(seed).uniform(-2.0, 2.0, 2).tolist()
        self.n_steps = 0
        return (self.x, self.mark), {}

    def step(self, action: Action) -> Outcome:
        push = float(np.clip(np.asarray(action, np.float64).reshape(-1)[0], -1.0, 1.0))
        self.x = min(max(self.x + push, -2.0), 2.0)
        self.n_steps += 1
        return (self.x, self.mark), -abs(self.mark - self.x), False, self.n_steps == STEPS, {}

    def board(self) -> str:
        cells = ["·"] * WIDTH
        for mark, x in (("|", self.mark), ("@", self.x)):
            cells[round((x + 2.0) / 4.0 * (WIDTH - 1))] = mark
        return "".join(cells)


def push_to_mark(state: tuple[float, ...]) -> np.ndarray:
    return np.clip(np.array([state[1] - state[0]]), -1.0, 1.0)
