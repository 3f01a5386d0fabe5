"""A game of luck: what was won says little about what was played."""

import numpy as np

from regard.games.game import Action, Choice, Outcome

SURE = 5.0  # what `sure` gives
JACKPOT = 10.0  # what `bet` gives, but rarely ...
CHANCE = 0.1  # ... in this share of all bets; otherwise 0


class Luck:
    """One decision: `sure` gives 5, `bet` gives 10 in one of ten cases and otherwise 0, so 1 on average.

    All who won 10 had bet.  A policy that is asked for 10 and imitates them bets, too, and gets 1 (Paster et al. 2022;
    Brandfonbrener et al. 2022): the return was luck, and no action brings it about.
    """

    action_names: tuple[str, ...] = ("sure", "bet")

    def __init__(self) -> None:
        self.action_space = Choice(len(self.action_names))

    def reset(self, *, seed: int | None = None) -> tuple[tuple[str, ...], dict[str, object]]:
        self.draw = np.random.default_rng(seed)
        self.told = "choose"
        return (self.told,), {}

    def step(self, action: Action) -> Outcome:
        name = self.action_names[int(action)]
        reward = SURE if name == "sure" else JACKPOT * (self.draw.random() < CHANCE)
        self.told = f"{name}: {reward:g}"
        return ("over",), reward, True, False, {}

    def board(self) -> str:
        return self.told


def take_the_sure(state: tuple[str, ...]) -> int:
    return 0
