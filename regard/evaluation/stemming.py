"""Porter's stemmer (1980), with the later changes that `nltk` and `rouge-score` have: words that mean the same become
one, "relational" and "relate" both "relat".

A word is [C](VC)^m[V], where C are consonants and V vowels; the measure m says how much of it a suffix leaves.
"""

import re
from collections.abc import Callable
from functools import lru_cache

IRREGULAR = {
    "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "innings": "inning", "outings": "outing",
    "cannings": "canning",
}  # fmt: skip
UNCHANGED = {"sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed"}
CACHED = 1 << 16  # words whose stems are kept


def shape(word: str) -> str:
    """Of every letter whether it is a vowel: a y is one after a consonant."""
    kinds = ""
    for i, letter in enumerate(word):
        is_vowel = letter in "aeiou" or (letter == "y" and i > 0 and kinds[-1] == "c")
        kinds += "v" if is_vowel else "c"
    return kinds


def measure(word: str) -> int:
    return len(re.findall("v+c+", shape(word)))


def ends_short(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y: hop, fil; or only the last two of them: at."""
    kinds = shape(word)
    return kinds == "vc" or (kinds.endswith("cvc") and word[-1] not in "wxy")


Rule = tuple[str, str, Callable[[str], bool]]  # a suffix, what it becomes, and what must hold of what stands before it


def apply(word: str, rules: list[Rule]) -> str:
    """The first rule whose suffix is there decides, also when its condition fails."""
    for suffix, other, holds in rules:
        if word.endswith(suffix):
            before = word.removesuffix(suffix)
            return before + other if holds(before) else word
    return word


def rules(m: int, table: str) -> list[Rule]:
    """From "ational>ate tional>tion", each for what has a measure above m."""
    pairs = (rule.split(">") for rule in table.split())
    return [(suffix, other, lambda before: measure(before) > m) for suffix, other in pairs]


PLURALS = rules(-1, "sses>ss ies>i ss>ss s>")
LONG = rules(
    0,
    "ational>ate tional>tion enci>ence anci>ance izer>ize bli>ble alli>al entli>ent eli>e ousli>ous ization>ize "
    "ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble fulli>ful",
)
FULL = rules(0, "icate>ic ative> alize>al iciti>ic ical>ic ful> ness>")
LAST: list[Rule] = [
    *rules(1, "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent>"),
    ("ion", "", lambda before: measure(before) > 1 and before.endswith(("s", "t"))),
    *rules(1, "ou> ism> ate> iti> ous> ive> ize>"),
]


def singular(word: str) -> str:
    """Step 1a."""
    return word[:-1] if len(word) == 4 and word.endswith("ies") else apply(word, PLURALS)


def present(word: str) -> str:
    """Step 1b: agreed, plastered, motoring."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return apply(word, rules(0, "eed>ee"))
    before = next((word.removesuffix(end) for end in ("ed", "ing") if word.endswith(end)), word)
    if before == word or "v" not in shape(before):
        return word
    if before.endswith(("at", "bl", "iz")):
        return before + "e"
    if before[-2:-1] == before[-1:] and shape(before)[-1] == "c":  # a double consonant
        return before if before[-1] in "lsz" else before[:-1]
    return before + "e" if measure(before) == 1 and ends_short(before) else before


def y_to_i(word: str) -> str:
    """Step 1c: happy, but not say or by."""
    return word[:-1] + "i" if word.endswith("y") and len(word) > 2 and shape(word)[-2] == "c" else word


def without_long_suffix(word: str) -> str:
    """Step 2."""
    if word.endswith("alli") and measure(word[:-4]) > 0:
        return without_long_suffix(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if measure(word[:-3]) > 0 else word
    return apply(word, LONG)


def without_e(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        before = word[:-1]
        m = measure(before)
        word = before if m > 1 or (m == 1 and not ends_short(before)) else word
    return word[:-1] if word.endswith("ll") and measure(word[:-1]) > 1 else word


@lru_cache(CACHED)
def stem(word: str) -> str:
    """Of a lower-case word."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2 or word in UNCHANGED:
        return word
    word = without_long_suffix(y_to_i(present(singular(word))))
    return without_e(apply(apply(word, FULL), LAST))
