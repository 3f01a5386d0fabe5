"""BPE-dropout at the speed of a table: a word is cut in up to 32 ways, each worked out once, then looked up."""

import random

from regard.text.bpe import BytePairs
from regard.text.words import split

N_BITS = 5
N_WAYS = 2**N_BITS
LONGEST = 64  # bytes; a longer "word" (a line without spaces) is cut first, as if the merges across were left out
MOST_WORDS = 200_000  # remembered at a time
MASK = 2**64 - 1


class Dropout:
    """The pieces of a text for a key (say, of epoch and line): the same text and key give the same pieces,
    in every process.  The way of the n-th word is drawn by the n-th number after the key."""

    def __init__(self, pairs: BytePairs, rate: float) -> None:
        self.pairs = pairs
        self.rate = rate
        self.ways: dict[str, list[list[int] | None]] = {}

    def encode(self, text: str, key: int) -> list[int]:
        ids: list[int] = []
        state = scramble(key)
        for word in split(text):
            state = (state * 6364136223846793005 + 1442695040888963407) & MASK  # Knuth's generator (MMIX)
            way = state >> (64 - N_BITS)
            ways = self.ways.get(word)
            pieces = ways[way] if ways else None
            ids += pieces if pieces else self.work_out(word, way)
        return ids

    def work_out(self, word: str, way: int) -> list[int]:
        if len(self.ways) >= MOST_WORDS:
            self.ways.clear()
        spelt = word.encode()
        dice = random.Random(b"%d %a " % (way, self.rate) + spelt)
        parts = [spelt[start : start + LONGEST] for start in range(0, len(spelt), LONGEST)]
        pieces = [piece for part in parts for piece in self.pairs.sample_word(part, self.rate, dice)]
        self.ways.setdefault(word, [None] * N_WAYS)[way] = pieces
        return pieces


def scramble(key: int) -> int:
    """Neighbouring keys, distant numbers (the finaliser of SplitMix64; Steele et al., 2014)."""
    z = (key + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)
