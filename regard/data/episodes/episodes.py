"""Episodes as arrays: the steps of all, one after the other, and where each episode begins."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from regard.data.files.splits import Divisible
from regard.data.notes import Notes


@dataclass(frozen=True)
class Episode:
    """One; state t was seen before action t, which reward t followed."""

    states: np.ndarray  # T columns: numbers (float64), or symbols (str)
    actions: np.ndarray  # T: whole numbers; or T d_action: numbers
    rewards: np.ndarray  # T

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True)
class EpisodeSet(Divisible):
    """Those of a file; all have states of one kind and width, and actions of one kind and width."""

    all: Sequence[Episode]
    places: list[str]  # as "walks.jsonl:12"
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.all)

    def keys(self) -> list[str]:
        """Episodes are drawn one by one: equal ones are no copies, and need not stay together."""
        return self.places

    def take(self, places: np.ndarray) -> "EpisodeSet":
        return EpisodeSet([self.all[i] for i in places], [self.places[i] for i in places])

    @property
    def has_symbols(self) -> bool:
        return self.all[0].states.dtype.kind == "U"

    @property
    def is_discrete(self) -> bool:
        return self.all[0].actions.ndim == 1

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.array([len(episode) for episode in self.all])

    @cached_property
    def returns(self) -> np.ndarray:
        """What each was rewarded with in all."""
        return np.array([episode.rewards.sum() for episode in self.all])

    @cached_property
    def states(self) -> np.ndarray:
        """Of all steps."""
        return np.concatenate([episode.states for episode in self.all])

    @cached_property
    def actions(self) -> np.ndarray:
        """Of all steps."""
        return np.concatenate([episode.actions for episode in self.all])
