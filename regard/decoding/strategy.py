"""How tokens are chosen, for all searches of one manner at once, each at its own step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.distribution import Distribution
from regard.decoding.interface import Record
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search


class Strategy(ABC):
    """Searches join and leave; tensors have one entry for each that is here."""

    def __init__(self, like: Search, device: torch.device) -> None:
        """For searches like this one."""
        self.config, self.ends, self.copies, self.device = like.config, like.ends, like.copies, device
        self.constraints = Constraints(like.config, like.ends, self.copies, device)
        self.searches: list[Search] = []
        self.record = Record()
        self.ages = np.zeros(0, np.int64)  # steps of each search so far
        self.limits = np.zeros(0, np.int64)
        self.ended_at = torch.zeros(0, dtype=torch.long, device=device)  # the step at which each was done; 0: not yet

    def join(self, searches: Sequence[Search]) -> None:
        """Searches at their first step, after those that are here."""
        self.constraints.join(searches)
        self.add(searches)
        self.searches += searches
        self.ages = np.concatenate([self.ages, np.zeros(len(searches), np.int64)])
        self.limits = np.concatenate([self.limits, np.array([search.limit for search in searches], np.int64)])
        self.ended_at = torch.cat([self.ended_at, self.ended_at.new_zeros(len(searches))])

    def advance(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """One step: logits (searches · copies, V) → tokens (searches, copies), and the copy that each of them continues
        (None: each its own)."""
        t = torch.from_numpy(self.ages).to(self.device)
        room = int(self.limits.max())
        t = t.clamp(max=room - 1)  # of searches that are done and still have rows
        tokens, parents, done = self.choose(self.constraints.apply(logits, self.ages), t, room)
        self.ages = self.ages + 1
        done |= torch.from_numpy(self.ages >= self.limits).to(self.device)
        self.ended_at = torch.where(done & (self.ended_at == 0), t + 1, self.ended_at)
        self.constraints.extend(tokens, parents)
        return tokens, parents

    def keep(self, places: Tensor) -> None:
        """Go on with these alone."""
        self.constraints.keep(places)
        self.record.keep(places)
        self.searches = [self.searches[place] for place in places.tolist()]
        self.ended_at, kept = self.ended_at[places], places.cpu().numpy()
        self.ages, self.limits = self.ages[kept], self.limits[kept]

    @abstractmethod
    def add(self, searches: Sequence[Search]) -> None:
        """What this strategy keeps of searches that join."""

    @abstractmethod
    def choose(self, distribution: Distribution, t: Tensor, room: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """Of step t (searches,), of at most `room`: tokens (searches, copies), the copy that each continues, and which
        searches are done."""

    @abstractmethod
    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        """For each of these searches, the best that its first `steps` steps found."""

    @abstractmethod
    def agreed(self, place: int, n_steps: int) -> list[int]:
        """The tokens so far that all answers which are still possible begin with; of several copies, the first has."""
