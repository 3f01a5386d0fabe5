"""How tokens are chosen, for all searches of one manner at once, each at its own step.

All that a strategy remembers of its searches is in `kept`: tensors with an entry for each search.  A step makes new
tensors or writes into them, and asks the device nothing, so that a CUDA graph can hold it (`regard.decoding.pool`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.constraints import Active, Constraints
from regard.decoding.distribution import Distribution
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.nn.layout import power_of_two

Kept = dict[str, Tensor]
NOTHING = {"prefixes": -1, "history": -1}  # what stands where a search has no more of something; of all others, 0
WIDTHS = {"prefixes": 1, "history": 2, "uniforms": 2}  # the dimension that is as large as a search needs it


class Strategy(ABC):
    """Searches join and leave."""

    columns: tuple[str, ...]  # of `kept`, what each step wrote: (searches, limit + 1, width); the last is of no step

    def __init__(self, like: Search, device: torch.device) -> None:
        """For searches like this one."""
        self.like = like
        self.config, self.ends, self.copies, self.device = like.config, like.ends, like.copies, device
        self.constraints = Constraints(like.config, like.ends, self.copies)
        self.searches: list[Search] = []
        self.ages = np.zeros(0, np.int64)  # steps of each search so far
        self.limits = np.zeros(0, np.int64)
        self.n_forced = np.zeros(0, np.int64)  # tokens of each search's prefix
        self.kept: Kept = {}

    def fresh(self, searches: Sequence[Search]) -> Kept:
        """What is kept of searches at their first step."""
        limits = torch.tensor([search.limit for search in searches])
        zeros = torch.zeros_like(limits)  # `ended_at` is the step at which a search was done; 0: not yet
        return {"t": zeros, "limits": limits, "ended_at": zeros.clone(), **self.constraints.fresh(searches)}

    def join(self, searches: Sequence[Search]) -> None:
        """Searches at their first step, after those that are here."""
        new = {name: tensor.to(self.device) for name, tensor in self.fresh(searches).items()}
        self.kept = {name: appended(name, self.kept[name], new[name]) for name in new} if self.searches else new
        self.know([*self.searches, *searches], np.append(self.ages, np.zeros(len(searches), np.int64)))

    def know(self, searches: list[Search], ages: np.ndarray) -> None:
        """Who is here, and for how long, as the host knows it."""
        self.searches, self.ages = searches, ages
        self.limits = np.array([search.limit for search in searches], np.int64)
        self.n_forced = np.array([len(search.prefix) for search in searches], np.int64)

    @property
    def active(self) -> Active:
        """Which constraints matter in the next step."""
        return self.constraints.active(self.ages, self.n_forced)

    def advance(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """One step: logits (searches · copies, V) → tokens (searches, copies), and the copy that each of them continues
        (None: each its own)."""
        tokens, parents = self.decide(logits, self.active)
        self.ages = self.ages + 1
        return tokens, parents

    def decide(self, logits: Tensor, active: Active) -> tuple[Tensor, Tensor | None]:
        """What `advance` does on the device."""
        kept = self.kept
        runs = kept["ended_at"] == 0
        # Searches that are done may still have rows: what they choose is recorded where nobody reads it.
        t = torch.where(runs, kept["t"], kept[self.columns[0]].shape[1] - 1)
        tokens, parents, done = self.choose(self.constraints.apply(logits, kept, active), t)
        n_steps = t + 1
        done = done | (n_steps >= kept["limits"])
        torch.where(done & runs, n_steps, kept["ended_at"], out=kept["ended_at"])
        kept["t"] += 1
        self.constraints.extend(kept, tokens, parents)
        return tokens, parents

    def record(self, t: Tensor, **columns: Tensor) -> None:
        """Keep what step t (searches,) chose, each (searches, width), for the end."""
        places = torch.arange(len(t), device=t.device)
        for name, column in columns.items():
            self.kept[name][places, t] = column

    def read(self, places: Tensor, n_steps: int) -> list[np.ndarray]:
        """What the first steps of these searches chose: a column is (steps, searches, width)."""
        return [self.kept[name][places, :n_steps].transpose(0, 1).cpu().numpy() for name in self.columns]

    def keep(self, places: Tensor) -> None:
        """Go on with these alone."""
        self.kept = {name: tensor[places] for name, tensor in self.kept.items()}
        chosen = places.tolist()
        self.know([self.searches[place] for place in chosen], self.ages[chosen])

    # Of a pool, whose tensors stay in place (`regard.decoding.pool`).

    def emptied(self, n_slots: int, *others: "Strategy") -> "Strategy":
        """Place for so many searches, none of which is there, as large as these and those of the others need it."""
        empty = type(self)(self.like, self.device)
        widths = {**WIDTHS, **dict.fromkeys(self.columns, 1)}
        for name, tensor in self.kept.items():
            shape = [max(sizes) for sizes in zip(tensor.shape, *(o.kept[name].shape for o in others), strict=True)]
            if name in widths:
                shape[widths[name]] = power_of_two(shape[widths[name]])
            empty.kept[name] = tensor.new_full((n_slots, *shape[1:]), NOTHING.get(name, 0))
        empty.kept["ended_at"].fill_(1)
        empty.know([self.like] * n_slots, np.zeros(n_slots, np.int64))
        return empty

    def has_room(self, other: "Strategy") -> bool:
        """For searches as large as those of another strategy."""
        return all(
            all(map(int.__le__, tensor.shape[1:], self.kept[name].shape[1:])) for name, tensor in other.kept.items()
        )

    def put(self, places: Tensor, other: "Strategy") -> None:
        """The searches at these places become those of another strategy."""
        for name, tensor in self.kept.items():
            tensor[places] = widened(name, other.kept[name], tuple(tensor.shape[1:]))
        searches, ages = list(self.searches), self.ages.copy()
        for i, place in enumerate(places.tolist()):
            searches[place], ages[place] = other.searches[i], other.ages[i]
        self.know(searches, ages)

    def taken(self, places: Tensor) -> "Strategy":
        """A copy that has these searches alone."""
        other = type(self)(self.like, self.device)
        other.kept, other.searches, other.ages = self.kept, self.searches, self.ages
        other.keep(places)
        return other

    def end(self, places: Tensor) -> None:
        """There is no search at these places any more."""
        self.kept["ended_at"][places] = self.kept["ended_at"][places].clamp(min=1)

    @abstractmethod
    def stop(self, place: int, n_steps: int) -> None:
        """End what a stop string ends that was completed in the last `n_steps` steps of this search."""

    @abstractmethod
    def choose(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Of step t (searches,): tokens (searches, copies), the copy that each continues, and which searches are
        done."""

    @abstractmethod
    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        """For each of these searches, the best that its first `steps` steps found."""

    @abstractmethod
    def agreed(self, place: int, n_steps: int) -> list[int]:
        """The tokens so far that all answers which are still possible begin with; of several copies, the first has."""


def appended(name: str, above: Tensor, below: Tensor) -> Tensor:
    """One after the other, with room in both for the wider."""
    shape = tuple(map(max, above.shape[1:], below.shape[1:]))
    return torch.cat([widened(name, above, shape), widened(name, below, shape)])


def widened(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tensor.shape[1:] == shape:
        return tensor
    missing = [pair for want, have in zip(shape[::-1], tensor.shape[:0:-1], strict=True) for pair in (0, want - have)]
    return F.pad(tensor, missing, value=NOTHING.get(name, 0))
