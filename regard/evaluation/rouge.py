"""ROUGE: how much of a reference summary's words a summary has, and how much of its own are there (Lin 2004).

Texts are lower-cased and cut into runs of a-z and 0-9; the figures are means over the texts, as in `rouge-score`.
Words can be stemmed by Porter's rules (1980), with the later changes that `nltk` and `rouge-score` have: those that
mean the same become one, "relational" and "relate" both "relat".
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np

from regard.evaluation.measured import Metric, Z
from regard.evaluation.translation import check

WORD = re.compile(r"[a-z0-9]+")
SHORTEST = 4  # letters of a word that is stemmed
IRREGULAR = {
    "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "innings": "inning", "outings": "outing",
    "cannings": "canning",
}  # fmt: skip
UNCHANGED = {"sky", "news", "inning", "outing", "canning", "howe", "proceed", "exceed", "succeed"}
CACHED = 1 << 16  # words whose stems are kept


def words(text: str, stemmed: bool) -> list[str]:
    runs = WORD.findall(text.lower())
    return [stem(word) if len(word) >= SHORTEST else word for word in runs] if stemmed else runs


def f_measure(n_common: int, n_output: int, n_reference: int) -> float:
    """2 P R / (P + R), with P = common / output and R = common / reference."""
    return 2 * n_common / (n_output + n_reference) if n_common else 0.0


def overlap(n: int, output: Sequence[str], reference: Sequence[str]) -> float:
    """ROUGE-n: of the n-grams."""
    own, other = (Counter(zip(*(side[i:] for i in range(n)), strict=False)) for side in (output, reference))
    return f_measure((own & other).total(), own.total(), other.total())


def subsequence(output: Sequence[str], reference: Sequence[str]) -> float:
    """ROUGE-L: of the longest common subsequence."""
    return f_measure(longest_common(output, reference), len(output), len(reference))


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Its length, a row of the table at a time: the bits of a number say where the row does not grow (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << i
    row = whole = (1 << len(a)) - 1
    for word in b:
        match = row & places.get(word, 0)
        row = ((row + match) | (row - match)) & whole
    return len(a) - row.bit_count()


KINDS: dict[str, Callable[[Sequence[str], Sequence[str]], float]] = {
    "ROUGE-1": partial(overlap, 1),
    "ROUGE-2": partial(overlap, 2),
    "ROUGE-L": subsequence,
}


def rouge(outputs: list[str], references: list[str], stemmed: bool = True) -> list[Metric]:
    """F-measures in percent, with the interval of their mean."""
    check(outputs, references)
    pairs = [(words(o, stemmed), words(r, stemmed)) for o, r in zip(outputs, references, strict=True)]
    signature = f"n:{len(pairs)}|f:1|case:lc|tok:a-z0-9|stem:{'porter' if stemmed else 'no'}|interval:normal 95%"
    metrics = []
    for name, kind in KINDS.items():
        values = 100 * np.array([kind(output, reference) for output, reference in pairs])
        mean, half = float(values.mean()), Z * float(values.std()) / len(values) ** 0.5
        interval = max(mean - half, 0.0), min(mean + half, 100.0)
        metrics.append(Metric(name=name, value=mean, signature=signature, interval=interval))
    return metrics


# Stemming.  A word is [C](VC)^m[V], where C are consonants and V vowels; the measure m says how much of it a suffix
# leaves.


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


SuffixRule = tuple[
    str, str, Callable[[str], bool]
]  # a suffix, what it becomes, and what must hold of what stands before it


def apply(word: str, rules: list[SuffixRule]) -> str:
    """The first rule whose suffix is there decides, also when its condition fails."""
    for suffix, other, holds in rules:
        if word.endswith(suffix):
            before = word.removesuffix(suffix)
            return before + other if holds(before) else word
    return word


def rules(m: int, table: str) -> list[SuffixRule]:
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
LAST: list[SuffixRule] = [
    *rules(1, "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent>"),
    ("ion", "", lambda before: measure(before) > 1 and before.endswith(("s", "t"))),
    *rules(1, "ou> ism> ate> iti> ous> ive> ize>"),
]


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
    word = present(word[:-1] if len(word) == 4 and word.endswith("ies") else apply(word, PLURALS))
    if word.endswith("y") and len(word) > 2 and shape(word)[-2] == "c":  # step 1c: happy, but not say or by
        word = word[:-1] + "i"
    return without_e(apply(apply(without_long_suffix(word), FULL), LAST))
