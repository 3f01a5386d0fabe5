"""Byte-level byte-pair encoding (Sennrich et al., 2016), written to be read.

Learning: begin with the 256 bytes; again and again, join the pair of neighbors that occurs most often into a
new token.  Encoding: join pairs of a word in the order in which they were learned.  On "aaabdaaabac":

    aaabdaaabac  →  aa a b d aa a b a c  →  aa ab d aa ab a c  →  aaab d aaab a c

The `tokenizers` library does the same in Rust; the tests hold the two equal, merge for merge and id for id.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from regard.text.words import SPECIAL, split

TokenPair = tuple[int, int]
GONE = -1  # in the place of a piece: it belongs to the one before

# GPT-2 writes each byte as one printable character, so that a token is a string without spaces: the printable
# bytes stand for themselves, the others for the characters from U+0100 on.  This is also the order of their ids.
PRINTABLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTES = PRINTABLE + OTHERS
LETTERS = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + n): byte for n, byte in enumerate(OTHERS)}


def to_bytes(token: str) -> bytes:
    """The bytes that a token of tokenizer.json stands for: "ĠcafÃ©" → " café" in UTF-8."""
    return bytes(LETTERS[letter] for letter in token)


class BytePairs:
    """What was learned: the tokens in the order of their ids, the merges in the order they were learned.  The first
    `n_special` tokens are not text."""

    def __init__(self, tokens: list[bytes], merges: list[TokenPair], n_special: int = len(SPECIAL)) -> None:
        self.tokens, self.merges, self.n_special = tokens, merges, n_special
        ids = {token: n for n, token in enumerate(tokens) if n >= n_special}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.made = [ids[tokens[left] + tokens[right]] for left, right in merges]  # merge → the token it makes
        self.byte_ids = [ids[bytes([byte])] for byte in range(256)]  # byte → its token

    def encode(self, text: str) -> list[int]:
        return [token for word in split(text) for token in self.merge(word.encode())[0]]

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(self.tokens[token] for token in ids).decode("utf-8", "replace")

    def sample_word(self, word: bytes, rate: float, dice: random.Random) -> list[int]:
        """BPE-dropout (Provilkov et al., 2020): at every step each possible merge is skipped with chance `rate`."""
        pieces = [self.byte_ids[byte] for byte in word]
        while possible := [
            (self.ranks[pair], place)
            for place, pair in enumerate(pairwise(pieces))
            if pair in self.ranks and not dice.random() < rate
        ]:
            rank, place = min(possible)
            pieces[place : place + 2] = [self.made[rank]]
        return pieces

    def derivation(self, token: int) -> list[TokenPair]:
        """The merges that made a token, in order.  They are the same in every word that the token is part of:
        a merge across its ends would have made another token."""
        return [] if token < self.n_special else self.merge(self.tokens[token])[1]

    def merge(self, word: bytes) -> tuple[list[int], list[TokenPair]]:
        """The pieces of a word, and the merges that made them: always the merge learned first, and where it fits twice,
        the left one.  A piece lies where its first byte was; the heap keeps outdated merges, which are skipped."""
        pieces = [self.byte_ids[byte] for byte in word]
        n, merges = len(pieces), []
        left, right = list(range(-1, n - 1)), list(range(1, n + 1))  # the neighbors of each place
        heap = [(self.ranks[pair], place) for place, pair in enumerate(pairwise(pieces)) if pair in self.ranks]
        heapq.heapify(heap)
        while heap:
            rank, place = heapq.heappop(heap)
            other = right[place]
            if other == n or (pieces[place], pieces[other]) != self.merges[rank]:
                continue
            merges.append(self.merges[rank])
            pieces[place], pieces[other] = self.made[rank], GONE
            right[place] = right[other]
            if right[place] < n:
                left[right[place]] = place
            for first, second in ((left[place], place), (place, right[place])):
                if first >= 0 and second < n and (pieces[first], pieces[second]) in self.ranks:
                    heapq.heappush(heap, (self.ranks[pieces[first], pieces[second]], first))
        return [piece for piece in pieces if piece != GONE], merges


def learn(lines: Iterable[str], vocab_size: int, min_count: int = 1, special: Sequence[str] = SPECIAL) -> BytePairs:
    """Join the most frequent pair until there are `vocab_size` tokens or no pair occurs `min_count` times.

    Of two equally frequent pairs the one with the smaller ids is joined first.  Only the words that hold the pair
    are counted anew, and the heap keeps outdated counts, which are skipped: the result is that of counting afresh.
    """
    tokens = [*(name.encode() for name in special), *(bytes([byte]) for byte in BYTES)]
    byte_ids = {byte: len(special) + n for n, byte in enumerate(BYTES)}
    repeats = Counter(word for line in lines for word in split(line))
    words = [[byte_ids[byte] for byte in word.encode()] for word in repeats]
    times = list(repeats.values())

    counts: Counter[TokenPair] = Counter()
    places: defaultdict[TokenPair, set[int]] = defaultdict(set)  # pair → the words that hold it (or once did)
    for n, word in enumerate(words):
        for pair in pairwise(word):
            counts[pair] += times[n]
            places[pair].add(n)

    merges: list[TokenPair] = []
    heap = [(-count, pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    while heap and len(tokens) < vocab_size:
        count, pair = heapq.heappop(heap)
        if -count != counts[pair] or -count < max(1, min_count):
            continue
        joined = len(tokens)
        tokens.append(tokens[pair[0]] + tokens[pair[1]])
        merges.append(pair)
        touched: set[TokenPair] = set()
        for n in places.pop(pair):
            before, after = words[n], join(words[n], pair, joined)
            words[n] = after
            for old in pairwise(before):
                counts[old] -= times[n]
            for new in pairwise(after):
                counts[new] += times[n]
                places[new].add(n)
            touched.update(pairwise(before), pairwise(after))
        for changed in touched:
            heapq.heappush(heap, (-counts[changed], changed))
    return BytePairs(tokens, merges, len(special))


def join(word: list[int], pair: TokenPair, joined: int) -> list[int]:
    """Every occurrence of the pair, from the left, as one token: aaa with (a, a) → aa a."""
    result: list[int] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            result.append(joined)
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result
