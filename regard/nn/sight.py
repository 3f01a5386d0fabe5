"""Who may look at whom.  A mask is a rule about positions, written once; every path derives from it what it needs.

    causal & window(64) | global_tokens(1)

`rule.allows(q, k, b)`: may the query at position q look at the key at position k, in sequence b?  The three are
broadcast together, so the rule serves the readable mask (B, Q, K) and FlexAttention alike.  `rule.band()` is the
rule as a band around the diagonal, (left, right), where it is one: what the varlen kernels take.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.layout import Layout

Band = tuple[float, float]  # how far left and right a query may look, infinity for no limit


class Sight(ABC):
    @abstractmethod
    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        """True where the query may look at the key."""

    def band(self) -> Band | None:
        return None

    def __and__(self, other: "Sight") -> "Sight":
        return Both(self, other)

    def __or__(self, other: "Sight") -> "Sight":
        return Either(self, other)


class Everywhere(Sight):
    """No restriction: an encoder."""

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return torch.ones_like(q + k + b, dtype=torch.bool)

    def band(self) -> Band:
        return (float("inf"), float("inf"))


class Causal(Sight):
    """Nobody looks at the future: k <= q."""

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return k <= q

    def band(self) -> Band:
        return (float("inf"), 0)


@dataclass(eq=False)
class window(Sight):
    """Only neighbors up to `width` away: |q - k| <= width."""

    width: int

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return (q - k).abs() <= self.width

    def band(self) -> Band:
        return (self.width, self.width)


@dataclass(eq=False)
class global_tokens(Sight):
    """The first `n` tokens look at all and are looked at by all."""

    n: int

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return (q < self.n) | (k < self.n)


@dataclass(eq=False)
class prefix(Sight):
    """All may look at the first `lengths[b]` tokens of their sequence."""

    lengths: Tensor  # B

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return k < self.lengths[b]


class order(Sight):
    """Look only at tokens that come earlier in a given order: ranks[b, k] < ranks[b, q], or <= with `itself`.

    `of_queries` has the turns of queries that are not one for each key, but some of them.
    """

    def __init__(self, ranks: Tensor, itself: bool = True, of_queries: Tensor | None = None):
        self.ranks = ranks  # B T, the turn of each position
        self.itself = itself
        self.of_queries = ranks if of_queries is None else of_queries  # B Q

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        of_query, of_key = turn(self.of_queries, b, q), turn(self.ranks, b, k)
        return of_key <= of_query if self.itself else of_key < of_query


def turn(ranks: Tensor, b: Tensor, place: Tensor) -> Tensor:
    """Places past a sequence's end have no rank; the layout hides them."""
    return ranks[b, place.clamp(max=ranks.shape[1] - 1)]


@dataclass(eq=False)
class Both(Sight):
    left: Sight
    right: Sight

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.left.allows(q, k, b) & self.right.allows(q, k, b)

    def band(self) -> Band | None:
        a, b = self.left.band(), self.right.band()
        return None if a is None or b is None else (min(a[0], b[0]), min(a[1], b[1]))


@dataclass(eq=False)
class Either(Sight):
    left: Sight
    right: Sight

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.left.allows(q, k, b) | self.right.allows(q, k, b)

    def band(self) -> Band | None:
        a, b = self.left.band(), self.right.band()
        if a is None or b is None:
            return None
        wider = (max(a[0], b[0]), max(a[1], b[1]))
        return wider if wider in (a, b) else None  # two crossed bands are not a band


everywhere = Everywhere()
causal = Causal()


def visible(sight: Sight, queries: Layout, keys: Layout) -> Tensor | None:
    """The rule as a boolean mask that broadcasts to (B, Q, K), True where a query may look; None where all may.

    The positions carry the alignment: in cached decoding the queries are the last of the keys, and their
    positions say so.
    """
    places = torch.arange(keys.longest, device=keys.lengths.device)
    tokens = None if keys.is_full else (places < keys.lengths[:, None])[:, None, :]  # B 1 K
    if sight.band() == (float("inf"), float("inf")):
        return tokens
    one_query = queries.longest == 1 and queries.starts is not None
    if one_query and sight.band() == (float("inf"), 0):
        return tokens  # the newest token, at the end of its keys, has no future to hide
    sequences = torch.arange(keys.n_sequences, device=places.device)
    allowed = sight.allows(queries.padded_positions()[:, :, None], places, sequences[:, None, None])
    return allowed if tokens is None else allowed & tokens
