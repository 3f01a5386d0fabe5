"""Case and punctuation as tags: what was taken from a text, word by word, and how to write it again.

"Hello, NASA is here."  →  hello nasa is here  +  Capital,  UPPER  lower  lower.
"""

import re
from collections.abc import Callable, Sequence

from regard.data.files.labelled import Tagged
from regard.data.files.plain import PlainText


def capital(word: str) -> str:
    return word[:1].upper() + word[1:]


CASES: dict[str, Callable[[str], str]] = {"lower": str, "Capital": capital, "UPPER": str.upper}
MARKS = ("", ",", ".", "?", "!", ":", ";")  # after a word
NEUTRAL = "lower"  # the word as it is
WRITTEN = {case + mark: (write, mark) for case, write in CASES.items() for mark in MARKS}
TAGS = tuple(WRITTEN)

JOINED = re.compile(r" @([-.,])@ ")  # WikiText's "red @-@ tipped", "1 @,@ 000"
CLITIC = re.compile(r" ('(?:s|t|re|ve|m|ll|d))(?=\s|$)", re.IGNORECASE)  # and its "lobster 's"
BARE = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)  # from the first letter or digit to the last


def strip(text: str) -> tuple[list[str], list[str]]:
    """The words of a text in lower case without punctuation, and the tag of each.

    Of several marks after a word the first counts; brackets, quotes and dashes between words are dropped.  Of a
    word with capitals inside ("iPhone", "McDonald") the first letter counts.
    """
    words: list[str] = []
    tags: list[str] = []
    for piece in CLITIC.sub(r"\1", JOINED.sub(r"\1", text)).split():
        bare = BARE.search(piece)
        if bare:
            words.append(bare[0].lower())
            tags.append(case_of(bare[0]))
        after = piece[bare.end() :] if bare else piece
        mark = next((letter for letter in after if letter in MARKS), "")
        if words and tags[-1] in CASES:
            tags[-1] += mark
    return words, tags


def case_of(word: str) -> str:
    """The first case that writes the word as it is; otherwise that of its first letter."""
    lower = word.lower()
    exact = next((name for name, write in CASES.items() if write(lower) == word), None)
    begins_high = word[0] != lower[0] and capital(lower).lower() == lower
    return exact or ("Capital" if begins_high else "lower")


def restore(words: Sequence[str], tags: Sequence[str]) -> str:
    """The text, with single spaces."""
    forms = (WRITTEN[tag] for tag in tags)
    return " ".join(write(word) + mark for word, (write, mark) in zip(words, forms, strict=True))


def stripped(text: PlainText) -> Tagged:
    """Every line as a tagged sentence; lines without a word are skipped, and counted."""
    sentences = Tagged()
    sentences.notes.update(text.notes)
    for line, place in zip(text.lines, text.places, strict=True):
        sentences.add(*strip(line), place, if_empty="line without a word skipped")
    return sentences
