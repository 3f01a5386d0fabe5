"""Many texts to ids in one array, at the speed of a table: a word is worked out once, then looked up."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from itertools import chain, groupby

import numpy as np

from regard.text.dropout import ranges

FlatTokens = tuple[np.ndarray, np.ndarray]  # the ids of all texts, one after the other, and how many each has
BETWEEN = "\0"  # two texts: it belongs to no word
AT_ONCE = 500  # new words in one text
MOST_WORDS, MOST_CHARACTERS = 2**18, 2**24  # that a table keeps; then it begins anew


def flattened(batch: list[list[int]]) -> FlatTokens:
    lengths = np.fromiter(map(len, batch), np.int64, len(batch))
    return np.fromiter(chain.from_iterable(batch), np.uint32, int(lengths.sum())), lengths


class ByteTable:
    """The id of each byte, where no merge was learned: a text is its bytes."""

    def __init__(self, byte_ids: list[int]) -> None:
        self.ids = np.array(byte_ids, np.uint32)

    def encode(self, texts: list[str]) -> FlatTokens:
        written = [text.encode() for text in texts]
        return self.ids[np.frombuffer(b"".join(written), np.uint8)], np.fromiter(
            map(len, written), np.int64, len(texts)
        )


class WordTable(dict[str, int]):
    """The number of each word seen so far, and its ids, for texts that are cut as `words.PATTERN` says.

    `encode` cuts and encodes as the tokenizer does; it is asked for new words, and for texts with a character of which
    Python's Unicode tables and its own might differ.
    """

    def __init__(self, encode: Callable[[list[str]], list[list[int]]]) -> None:
        self.encode_batch = encode
        self.forget()

    def forget(self) -> None:
        self.clear()
        self[BETWEEN] = 0
        self.new: list[str] = []
        self.n_characters = 0
        self.pool = np.empty(0, np.uint32)  # the ids of all words ...
        self.begins, self.n_ids = np.zeros(1, np.int64), np.zeros(1, np.int64)  # ... and where those of each lie

    def __missing__(self, word: str) -> int:
        self.new.append(word)
        number = self[word] = len(self)
        return number

    def encode(self, texts: list[str]) -> FlatTokens:
        unsure = patterns()[1]
        joined = BETWEEN.join(texts)
        if joined.count(BETWEEN) == len(texts) - 1 and unsure.search(joined) is None:
            return self.look_up(joined)
        # A text that is unsure goes the longer way, the others still the short one.
        runs = groupby(texts, lambda text: BETWEEN in text or unsure.search(text) is not None)
        parts = [flattened(self.encode_batch(list(run))) if odd else self.encode(list(run)) for odd, run in runs]
        nothing = np.empty(0, np.uint32), np.empty(0, np.int64)
        ids, lengths = zip(nothing, *parts, strict=True)
        return np.concatenate(ids), np.concatenate(lengths)

    def look_up(self, joined: str) -> FlatTokens:
        words = patterns()[0].findall(joined)
        numbers = np.fromiter(map(self.__getitem__, words), np.int64, len(words))
        self.learn()
        n_ids = self.n_ids[numbers]
        ids = self.pool[np.repeat(self.begins[numbers], n_ids) + ranges(n_ids)]
        ends = np.append(np.flatnonzero(numbers == 0), len(numbers))  # of each text, in words
        totals = np.concatenate([[0], np.cumsum(n_ids)])[ends]
        if len(self) > MOST_WORDS or self.n_characters > MOST_CHARACTERS:
            self.forget()
        return ids, np.diff(totals, prepend=0)

    def learn(self) -> None:
        """What the new words are made of."""
        if not self.new:
            return
        more = np.zeros(len(self.new), np.int64)
        self.begins, self.n_ids = np.concatenate([self.begins, more]), np.concatenate([self.n_ids, more])
        blank, written = ([word for word in self.new if word.isspace() == is_blank] for is_blank in (True, False))
        for words, (ids, n_ids) in (
            (blank, flattened(self.encode_batch(blank))),
            (written, self.encode_words(written)),
        ):
            numbers = np.fromiter(map(self.__getitem__, words), np.int64, len(words))
            self.begins[numbers], self.n_ids[numbers] = len(self.pool) + np.cumsum(n_ids) - n_ids, n_ids
            self.pool = np.concatenate([self.pool, ids])
        self.n_characters += sum(map(len, self.new))
        self.new = []

    def encode_words(self, words: list[str]) -> FlatTokens:
        """Line ends between them, so that many are encoded as one text: beginning a text costs as much as a few words.
        Nothing but white space holds a line end."""
        [[line_end]] = self.encode_batch(["\n"])
        rows = ["\n".join(words[i : i + AT_ONCE]) for i in range(0, len(words), AT_ONCE)]
        ids, _ = flattened([[*row, line_end] for row in self.encode_batch(rows)])
        ends = np.flatnonzero(ids == line_end)
        return np.delete(ids, ends), np.diff(ends, prepend=-1) - 1


@cache
def patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """`words.PATTERN` for Python, which knows no \\p{L}, with BETWEEN as a word of its own; and what is left to the
    tokenizer: characters that this Python has not heard of, and those beyond the first 65,536."""
    kinds: dict[str, list[int]] = {"letter": [], "number": [], "space": [], "unsure": []}
    for n in range(1, 2**16):
        category = unicodedata.category(chr(n))
        if category in ("Cn", "Cs"):
            kinds["unsure"].append(n)
        elif category[0] in "LN":
            kinds["letter" if category[0] == "L" else "number"].append(n)
        elif chr(n).isspace() and not 0x1C <= n <= 0x1F:  # Python alone takes these separators for white space
            kinds["space"].append(n)
    letter, number, space, unsure = map(as_ranges, kinds.values())
    words = f"{BETWEEN}|'(?:s|t|re|ve|m|ll|d)| ?[{letter}]+| ?[{number}]+| ?[^{letter}{number}{space}{BETWEEN}]+"
    blanks = f"[{space}]+(?![^{space}{BETWEEN}])|[{space}]+"
    return re.compile(f"{words}|{blanks}"), re.compile(f"[{unsure}\U00010000-\U0010ffff]")


def as_ranges(numbers: list[int]) -> str:
    """Characters as a set of a pattern has them: those in a row as first-last."""
    rows = groupby(zip(numbers, range(len(numbers)), strict=True), lambda pair: pair[0] - pair[1])
    runs = [[n for n, _ in row] for _, row in rows]
    return "".join(f"\\u{run[0]:04x}-\\u{run[-1]:04x}" for run in runs)
