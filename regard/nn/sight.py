"""Who may look at whom.  A mask is a rule about positions, said once; every path derives from it what it needs.

    causal & window(64) | global_tokens(1)

`rule.allows(q, k, b)`: may the query at position q look at the key at position k, in sequence b?  The three are
broadcast together, so the rule serves the readable mask (B, Q, K) and FlexAttention alike.  `rule.band()` is the
rule as a band around the diagonal, (left, right), where it is one: what the varlen kernels take.
"""

from abc import ABC, abstractmethod

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


class window(Sight):
    """Only neighbours up to `width` away: |q - k| <= width."""

    def __init__(self, width: int):
        self.width = width

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return (q - k).abs() <= self.width

    def band(self) -> Band:
        return (self.width, self.width)


class global_tokens(Sight):
    """The first `n` tokens look at all and are looked at by all."""

    def __init__(self, n: int):
        self.n = n

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return (q < self.n) | (k < self.n)


class prefix(Sight):
    """All may look at the first `lengths[b]` tokens of their sequence."""

    def __init__(self, lengths: Tensor):
        self.lengths = lengths  # B

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


class Both(Sight):
    def __init__(self, one: Sight, other: Sight):
        self.one, self.other = one, other

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.one.allows(q, k, b) & self.other.allows(q, k, b)

    def band(self) -> Band | None:
        one, other = self.one.band(), self.other.band()
        return None if one is None or other is None else (min(one[0], other[0]), min(one[1], other[1]))


class Either(Sight):
    def __init__(self, one: Sight, other: Sight):
        self.one, self.other = one, other

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.one.allows(q, k, b) | self.other.allows(q, k, b)

    def band(self) -> Band | None:
        one, other = self.one.band(), self.other.band()
        if one is None or other is None:
            return None
        wider = (max(one[0], other[0]), max(one[1], other[1]))
        return wider if wider in (one, other) else None  # two crossed bands are no band


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
