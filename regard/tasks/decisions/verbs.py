"""What can be asked of a run that decides: to play."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from regard.decoding.config import DecodingConfig
from regard.games.game import Environment
from regard.tasks.request import Help, Request


@dataclass(frozen=True)
class Played:
    """One episode: what was asked for, and what came of it."""

    asked: float | None  # None: the run imitates, and nothing can be asked for
    reached: float  # the sum of all rewards
    seed: int  # with which the game began
    states: list[list[str]] | list[list[float]]  # symbols or numbers, before each action
    actions: list[int] | list[list[float]]
    names: list[str]  # of the actions
    rewards: list[float]
    expected: list[float] = field(default_factory=list)  # the return to go that a critic expects, before each action
    boards: list[str] = field(default_factory=list)  # before each action and after the last, if they were asked for
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Play(Request[Played]):
    """Play episodes of the run's game, all at once; `asked` is the return to reach (None: the recipe's)."""

    name = "play"

    episodes: Annotated[int, Help(text="how many", least=1)] = 1
    asked: float | None = None
    seed: Annotated[int, Help(text="of the first episode; the next have the next", least=0)] = 0
    boards: bool = False
    decoding: DecodingConfig | None = None  # None: the recipe's settings
    make: Callable[[], Environment] | None = None  # another environment with gymnasium's interface, to play in
