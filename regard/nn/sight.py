"""Who may look at whom.  A mask is a rule about positions, written once; every path derives from it what it needs.

    causal & window(64) | global_tokens(1)

`rule.allows(q, k, b)`: may the query at position q look at the key at position k, in sequence b?  The three are
broadcast together, so the rule serves the readable mask (B, Q, K) and FlexAttention alike.  `rule.band()` is the
rule as a band around the diagonal, (left, right), where it is one: what the varlen kernels take.  `rule.local()` is
the rule as a band and some global rows: what is computed in blocks of a window's size.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.nn.layout import Layout

Band = tuple[float, float]  # how far left and right a query may look, infinity for no limit
NO_LIMIT: Band = (float("inf"), float("inf"))
NOWHERE: Band = (float("-inf"), float("-inf"))

D = TypeVar("D")


class Local(NamedTuple):
    """A query sees the keys of a band, `near`; of a wider one, `far`, those among the first `n_global`, and all of it
    if the query is one of these itself."""

    near: Band
    far: Band
    n_global: int


def is_windowed(local: Local | None) -> bool:
    return local is not None and min(local.near) >= 0 and max(local.near) < float("inf")


class Sight(ABC):
    @abstractmethod
    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        """True where the query may look at the key."""

    def band(self) -> Band | None:
        return None

    def local(self) -> Local | None:
        band = self.band()
        return None if band is None else Local(band, band, 0)

    def once(self, what: str, queries: Layout, keys: Layout, make: Callable[[], D]) -> D:
        """What a path derives from the rule for these layouts, such as a mask; `Once` keeps it from layer to layer."""
        return make()

    def __and__(self, other: "Sight") -> "Sight":
        return Both(self, other)

    def __or__(self, other: "Sight") -> "Sight":
        return Either(self, other)


class Everywhere(Sight):
    """No restriction: an encoder."""

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return torch.ones_like(q + k + b, dtype=torch.bool)

    def band(self) -> Band:
        return NO_LIMIT


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

    def local(self) -> Local:
        return Local(NOWHERE, NO_LIMIT, self.n)


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
        return None if a is None or b is None else narrower(a, b)

    def local(self) -> Local | None:
        a, b = self.left.local(), self.right.local()
        if a is None or b is None or (a.n_global and b.n_global):
            return None
        return Local(narrower(a.near, b.near), narrower(a.far, b.far), a.n_global or b.n_global)


@dataclass(eq=False)
class Either(Sight):
    left: Sight
    right: Sight

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.left.allows(q, k, b) | self.right.allows(q, k, b)

    def band(self) -> Band | None:
        a, b = self.left.band(), self.right.band()
        return None if a is None or b is None else wider(a, b)

    def local(self) -> Local | None:
        a, b = self.left.local(), self.right.local()
        if a is None or b is None or (a.n_global and b.n_global):
            return None
        near = wider(a.near, b.near)
        far = a.far if a.n_global else b.far if b.n_global else near
        if near is None or far is None or wider(near, far) != far:
            return None
        return Local(near, far, a.n_global or b.n_global)


def narrower(a: Band, b: Band) -> Band:
    return min(a[0], b[0]), min(a[1], b[1])


def wider(a: Band, b: Band) -> Band | None:
    """None: two crossed bands are not a band."""
    both = max(a[0], b[0]), max(a[1], b[1])
    return both if both in (a, b) else None


class Once(Sight):
    """A rule during one pass through the layers of a model: what is derived from it is made by the first layer and
    kept for the others, as long as their layouts are the same."""

    def __init__(self, rule: Sight):
        self.rule = rule
        self.kept: dict[str, tuple[Layout, Layout, object]] = {}

    def allows(self, q: Tensor, k: Tensor, b: Tensor) -> Tensor:
        return self.rule.allows(q, k, b)

    def band(self) -> Band | None:
        return self.rule.band()

    def local(self) -> Local | None:
        return self.rule.local()

    def once(self, what: str, queries: Layout, keys: Layout, make: Callable[[], D]) -> D:
        kept = self.kept.get(what)
        if kept is None or kept[0] is not queries or kept[1] is not keys:
            kept = self.kept[what] = (queries, keys, make())
        return kept[2]  # type: ignore[return-value]


everywhere = Everywhere()
causal = Causal()


def visible(sight: Sight, queries: Layout, keys: Layout) -> Tensor | None:
    """The rule as a boolean mask that broadcasts to (B, Q, K), True where a query may look; None where all may.

    The positions carry the alignment: in cached decoding the queries are the last of the keys, and their
    positions say so.
    """
    tokens = None if keys.is_full else keys.once("tokens", lambda: tokens_of(keys))  # B 1 K
    if sight.band() == NO_LIMIT:
        return tokens
    one_query = queries.longest == 1 and queries.starts is not None
    if one_query and sight.band() == (float("inf"), 0):
        return tokens  # the newest token, at the end of its keys, has no future to hide
    places = torch.arange(keys.longest, device=keys.lengths.device)
    sequences = torch.arange(keys.n_sequences, device=places.device)
    allowed = sight.allows(queries.places_among(keys)[:, :, None], places, sequences[:, None, None])
    return allowed if tokens is None else allowed & tokens


def tokens_of(layout: Layout) -> Tensor:
    """Which places of (B, 1, T) have a token."""
    return (torch.arange(layout.longest, device=layout.lengths.device) < layout.lengths[:, None])[:, None, :]
