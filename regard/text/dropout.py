"""BPE-dropout at the speed of a table: a word is cut in up to 16 ways, each worked out once, then looked up."""

import random
from collections.abc import Sequence

import numpy as np

from regard.text.bpe import BytePairs
from regard.text.unicode import well_formed
from regard.text.words import split

N_BITS = 4
N_WAYS = 2**N_BITS
LONGEST = 64  # bytes; a longer "word" (a line without spaces) is cut first, as if the merges across were left out
MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def sample(pairs: BytePairs, rate: float, text: str, key: int) -> list[int]:
    """The pieces of a text for a key (say, of epoch and line): the same text and key give the same pieces, in every
    process.  The way of the n-th word is the n-th number of SplitMix64 that begins at the key."""
    ids: list[int] = []
    state = scramble(key)
    for word in split(text):
        state = (state + GOLDEN) & MASK
        ids += cut(pairs, rate, word, way=scramble(state) >> (64 - N_BITS))
    return ids


class SampledTexts:
    """`sample` of texts that come again and again: words are found once, whole batches looked up at once."""

    def __init__(self, texts: Sequence[str], pairs: BytePairs, rate: float) -> None:
        self.pairs, self.rate = pairs, rate
        numbers: dict[str, int] = {}
        lines = [[numbers.setdefault(word, len(numbers)) for word in split(well_formed(text))] for text in texts]
        self.words = list(numbers)
        self.offsets = np.cumsum([0, *map(len, lines)])
        self.numbers = np.array([number for line in lines for number in line], np.int64)
        self.begin = np.full((len(self.words), N_WAYS), -1, np.int64)  # where the pieces of (word, way) lie in `pool`
        self.length = np.zeros((len(self.words), N_WAYS), np.int64)
        self.pool = np.empty(1024, np.int64)
        self.n_pooled = 0

    def sample(self, texts: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
        """The ids of each of these texts (their numbers), each with its own key."""
        n_words = self.offsets[texts + 1] - self.offsets[texts]
        place = ranges(n_words)
        word = self.numbers[np.repeat(self.offsets[texts], n_words) + place]
        with np.errstate(over="ignore"):  # numbers modulo 2^64
            steps = (place.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
            state = np.repeat(scramble_all(keys), n_words) + steps
        way = (scramble_all(state) >> np.uint64(64 - N_BITS)).astype(np.int64)
        for missing in np.unique((word * N_WAYS + way)[self.begin[word, way] < 0]):
            self.work_out(*divmod(int(missing), N_WAYS))
        length = self.length[word, way]
        ids = self.pool[np.repeat(self.begin[word, way], length) + ranges(length)]
        ends = np.concatenate([[0], np.cumsum(length)])[np.cumsum(n_words)]
        return np.split(ids, ends[:-1])

    def work_out(self, word: int, way: int) -> None:
        pieces = cut(self.pairs, self.rate, self.words[word], way)
        while self.n_pooled + len(pieces) > len(self.pool):
            self.pool = np.concatenate([self.pool, np.empty_like(self.pool)])
        self.pool[self.n_pooled : self.n_pooled + len(pieces)] = pieces
        self.begin[word, way], self.length[word, way] = self.n_pooled, len(pieces)
        self.n_pooled += len(pieces)


def cut(pairs: BytePairs, rate: float, word: str, way: int) -> list[int]:
    """The pieces of a word in one of its ways."""
    spelled = word.encode()
    dice = random.Random(b"%d %a " % (way, rate) + spelled)
    parts = [spelled[start : start + LONGEST] for start in range(0, len(spelled), LONGEST)]
    return [piece for part in parts for piece in pairs.sample_word(part, rate, dice)]


def ranges(lengths: np.ndarray) -> np.ndarray:
    """0 .. n-1 for each n, one after the other: [2, 3] → 0 1 0 1 2."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def scramble(key: int) -> int:
    """Neighboring keys, distant numbers (SplitMix64; Steele et al., 2014)."""
    z = (key + GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def scramble_all(keys: np.ndarray) -> np.ndarray:
    """`scramble` of many numbers (uint64)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
