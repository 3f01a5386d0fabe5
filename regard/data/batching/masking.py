"""Hidden words: which tokens of a text are to be told from the others, and what stands in their place."""

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
    """n numbers from 0 up to, not including, 1 for each key (keys, n)."""
    with np.errstate(over="ignore"):  # modulo 2^64
        steps = keys[:, None] + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return as_shares(scramble_all(steps))


def as_shares(numbers: np.ndarray) -> np.ndarray:
    shares: np.ndarray = (numbers >> np.uint64(11)) * 2.0**-53
    return shares


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
