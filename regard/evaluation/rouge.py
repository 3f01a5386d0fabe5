"""ROUGE: how much of a reference summary's words a summary has, and how much of its own are there (Lin 2004).

Texts are lower-cased and cut into runs of a-z and 0-9; the figures are means over the texts, as in `rouge-score`.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from regard.evaluation.metric import Metric, Z
from regard.evaluation.stemming import stem
from regard.evaluation.translation import check

WORD = re.compile(r"[a-z0-9]+")
SHORTEST = 4  # letters of a word that is stemmed


def words(text: str, stemmed: bool) -> list[str]:
    found = WORD.findall(text.lower())
    return [stem(word) if len(word) >= SHORTEST else word for word in found] if stemmed else found


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
