"""Ways to corrupt a text so that a model can learn to restore it: BERT's masked words, BART's five noises, T5's spans.

Each is a function of the tokens and of chance, which has a key: the same key corrupts the same text in the same way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.text.dropout import GOLDEN, ranges, scramble, scramble_all

BY_MASK, BY_OTHER = 0.8, 0.1  # of the hidden tokens; the rest stays as it is  (Devlin et al. 2019, section 3.1)


class Masked(NamedTuple):
    tokens: np.ndarray  # with the hidden ones replaced
    places: np.ndarray  # of the hidden ones, ascending
    labels: np.ndarray  # what stood there


def keys(seed: int, draw: int, texts: np.ndarray) -> np.ndarray:
    """A number for each text, a function of (seed, draw, text): chance begins with it."""
    return scramble_all(np.uint64(scramble(scramble(seed) ^ draw)) ^ texts.astype(np.uint64))


def chances(keys: np.ndarray, n: int) -> np.ndarray:
    """n numbers, at least 0 and below 1, for each key (keys, n)."""
    with np.errstate(over="ignore"):  # modulo 2^64
        steps = keys[:, None] + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return as_shares(scramble_all(steps))


def as_shares(numbers: np.ndarray) -> np.ndarray:
    """Random bits (uint64) as numbers, at least 0 and below 1."""
    return np.multiply(numbers >> np.uint64(11), 2.0**-53)


@dataclass(frozen=True)
class Hiding:
    """In place of a hidden token stands `mask` in 80 % of the cases, any of `words` in 10 %, itself in 10 %."""

    share: float
    mask: int
    words: np.ndarray

    def hide(self, tokens: np.ndarray, lengths: np.ndarray, fixed: np.ndarray, keys: np.ndarray) -> Masked:
        """Hide a share of the tokens of each text, at least one; the texts, each with its key, stand one after the
        other.  What is `fixed`, such as <s>, is never hidden."""
        text = np.repeat(np.arange(len(lengths)), lengths)
        with np.errstate(over="ignore"):
            step = keys[text] + (ranges(lengths).astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
        lot, kind, word = (as_shares(scramble_all(step ^ np.uint64(scramble(purpose)))) for purpose in range(3))
        n_free = np.bincount(text, weights=~fixed, minlength=len(lengths))
        n_hidden = np.minimum(np.maximum(np.rint(self.share * n_free), 1), n_free).astype(np.int64)
        order = np.lexsort((np.where(fixed, np.inf, lot), text))  # within each text by lot, what is fixed last
        places = np.sort(order[ranges(lengths) < n_hidden[text]])
        labels, kind = tokens[places], kind[places]
        other = self.words[(word[places] * len(self.words)).astype(np.int64)]
        hidden = tokens.copy()
        hidden[places] = np.where(kind < BY_MASK, self.mask, np.where(kind < BY_MASK + BY_OTHER, other, labels))
        return Masked(hidden, places, labels)


class Draws:
    """Chance from raw random bits, a function of its key: the same from one NumPy to the next."""

    def __init__(self, *key: int):
        self.bits = np.random.PCG64(list(key))

    def uniform(self, n: int) -> np.ndarray:
        """n numbers, at least 0 and below 1."""
        return as_shares(np.atleast_1d(self.bits.random_raw(n)))

    def below(self, n: int) -> int:
        return int(self.uniform(1)[0] * n)

    def permutation(self, n: int) -> np.ndarray:
        return np.argsort(self.uniform(n), kind="stable")

    def poisson(self, mean: float, n: int) -> np.ndarray:
        """Where n draws fall among P(0), P(0) + P(1), ..."""
        k = np.arange(int(mean + 12 * math.sqrt(mean)) + 12)
        log_p = k * math.log(mean) - mean - np.cumsum(np.log(np.maximum(k, 1)))
        return np.searchsorted(np.cumsum(np.exp(log_p))[:-1], self.uniform(n), side="right")


@dataclass(frozen=True)
class Noise:
    """How much is corrupted, and which tokens replace what is gone."""

    share: float  # of the tokens
    mean_span: float
    mask: int  # the token of what is hidden
    ends: np.ndarray  # V, whether a token ends a sentence
    sentinels: np.ndarray  # the tokens that number the gaps, for `corrupt_spans`
    anywhere: bool = False  # ... which may be at any place, the first and the last too, and as many as it happens


def mask(tokens: np.ndarray, draws: Draws, noise: Noise) -> np.ndarray:
    """Token masking: each is hidden by a chance of its own.  A B C D E -> A _ C _ E"""
    return np.where(draws.uniform(len(tokens)) < noise.share, noise.mask, tokens)


def delete(tokens: np.ndarray, draws: Draws, noise: Noise) -> np.ndarray:
    """Token deletion: what is gone leaves no mark, so the model must also find where.  A B C D E -> A C E"""
    return tokens[draws.uniform(len(tokens)) >= noise.share]


def infill(tokens: np.ndarray, draws: Draws, noise: Noise) -> np.ndarray:
    """Text infilling: spans of Poisson length, each hidden by one mask, so the model must also find how much is gone.
    A span of no token puts a mask between two.  A B C D E -> A _ D _ E"""
    wanted = round(len(tokens) * noise.share)
    if not wanted:
        return tokens
    lengths = draws.poisson(noise.mean_span, 4 * wanted + 16)  # more than are ever needed: a mean is at least 1
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), wanted) + 1]
    lengths[-1] -= max(0, int(lengths.sum()) - wanted)  # the last is cut to the share
    # Spans and kept tokens are so many things in a row; a random order of them is a random choice of places.
    n_kept = len(tokens) - int(lengths.sum())
    things = np.concatenate([np.ones(n_kept, np.int64), lengths])
    is_span = np.concatenate([np.zeros(n_kept, bool), np.ones(len(lengths), bool)])
    order = draws.permutation(len(things))
    starts = np.cumsum(things[order]) - things[order]
    corrupted = np.full(len(order), noise.mask, tokens.dtype)
    is_token = ~is_span[order]
    corrupted[is_token] = tokens[starts[is_token]]
    return corrupted


def permute(tokens: np.ndarray, draws: Draws, noise: Noise) -> np.ndarray:
    """Sentence permutation: the sentences in another order.  A B. C D. E F. -> E F. A B. C D."""
    ends = np.flatnonzero(noise.ends[tokens]) + 1
    sentences = [part for part in np.split(tokens, ends) if len(part)]
    return np.concatenate([sentences[i] for i in draws.permutation(len(sentences))] or [tokens])


def rotate(tokens: np.ndarray, draws: Draws, noise: Noise) -> np.ndarray:
    """Document rotation: it begins with any token, and its beginning follows its end.  A B C D E -> C D E A B"""
    return np.roll(tokens, -draws.below(len(tokens))) if len(tokens) else tokens


# Lewis et al. 2020, section 2.2 and figure 2.
Corrupt = Callable[[np.ndarray, Draws, Noise], np.ndarray]
NOISES: dict[str, Corrupt] = {"mask": mask, "delete": delete, "infill": infill, "permute": permute, "rotate": rotate}


def corrupt_spans(tokens: np.ndarray, draws: Draws, noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """T5's source and target: A B C D E F -> A <0> D E <1> and <0> B C <1> F <2>  (Raffel et al. 2020, section 3.1.4)

    A share of the tokens, rounded, is in spans of a mean length, rounded likewise.  As in the authors' code, the first
    token is always kept and the last always hidden, and texts of one length have as many gaps; unless they may be
    `anywhere`: then their number is drawn around the share, and all is turned by some places.
    """
    is_hidden = hidden_spans(len(tokens), draws, noise)
    first = is_hidden & ~np.concatenate([[False], is_hidden[:-1]])
    gap = np.cumsum(first) - 1
    source = np.where(first, noise.sentinels[gap * first], tokens)[~is_hidden | first]
    hidden = np.flatnonzero(is_hidden)
    places = np.arange(len(hidden)) + gap[hidden] + 1
    n_gaps = int(first.sum())
    target = np.empty(len(hidden) + n_gaps + 1, tokens.dtype)
    target[places] = tokens[hidden]
    at = np.flatnonzero(first[hidden])
    target[places[at] - 1] = noise.sentinels[:n_gaps]
    target[-1] = noise.sentinels[n_gaps]
    return source, target


def n_sentinels(n: int, share: float, mean_span: float, anywhere: bool) -> int:
    """How many a text of n tokens takes: one for each gap (of which the turning may cut one in two), and one after the
    last."""
    most = 2 * round(n * share) - 1 if anywhere else round(n * share)
    return max(round(max(most, 1) / mean_span), 1) + anywhere + 1


def hidden_spans(n: int, draws: Draws, noise: Noise) -> np.ndarray:
    """Which of n tokens are hidden."""
    n_hidden = min(max(round(n * noise.share), 1), n - 1)
    if n_hidden < 1:  # of one token nothing can be hidden
        return np.zeros(n, bool)
    if noise.anywhere:
        around = min(n_hidden - 1, n - 1 - n_hidden)
        n_hidden += draws.below(2 * around + 1) - around
    most = len(noise.sentinels) - 1 - noise.anywhere
    n_spans = min(max(round(n_hidden / noise.mean_span), 1), n_hidden, n - n_hidden, most)
    lengths = np.stack([parts(n - n_hidden, n_spans, draws), parts(n_hidden, n_spans, draws)], 1)  # kept, then hidden
    is_hidden = np.repeat(np.tile([False, True], n_spans), lengths.flatten())
    return np.roll(is_hidden, draws.below(n)) if noise.anywhere else is_hidden


def parts(n: int, n_parts: int, draws: Draws) -> np.ndarray:
    """n things in so many parts, none empty, every way to do it as likely as any other."""
    cuts = np.sort(draws.permutation(n - 1)[: n_parts - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [n]]))


def predicted_spans(n: int, draws: Draws, share: float, longest: int) -> np.ndarray:
    """Which of n tokens XLNet predicts: spans of 1 .. longest tokens, each at a random place of the 1 / share times as
    many that it has for itself  (Yang et al. 2019, section 2.6 "partial prediction"; their code's spans)."""
    n_spans = n // max(1, round(1 / share)) + 1  # no span has less room than one of a single token
    lengths = 1 + (draws.uniform(n_spans) * longest).astype(np.int64)
    rooms = np.maximum(lengths, np.rint(lengths / share).astype(np.int64))
    starts = np.cumsum(rooms) - rooms + (draws.uniform(n_spans) * (rooms - lengths + 1)).astype(np.int64)
    edges = np.zeros(n + 1, np.int64)  # +1 where a span begins, -1 after its end
    np.add.at(edges, np.minimum(starts, n), 1)
    np.add.at(edges, np.minimum(starts + lengths, n), -1)
    is_target = np.cumsum(edges[:n]) > 0
    if not is_target.any():  # of a short text, one token at least
        is_target[draws.below(n)] = True
    return is_target


def turns(is_target: np.ndarray, draws: Draws) -> np.ndarray:
    """The turn of every place: 0 for what is known from the beginning, then the targets in a random order."""
    ranks = np.zeros(len(is_target), np.int64)
    places = np.flatnonzero(is_target)
    ranks[places[draws.permutation(len(places))]] = 1 + np.arange(len(places))
    return ranks
