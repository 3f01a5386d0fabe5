"""F1 and exact match of answers, as SQuAD counts them (Rajpurkar et al. 2016; 2018 for questions without an answer)."""

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from regard.errors import DataError
from regard.evaluation.measured import Metric, Z, proportion

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and more than one space: "The  U.S.!" is "us".

    It is the same for every language, as in the published figures of XQuAD: German articles count as words.
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def f1(answer: str, reference: str) -> float:
    """2 · shared / (words of the one + words of the other); of nothing with nothing 1, of nothing with something 0."""
    given, wanted = normalized(answer).split(), normalized(reference).split()
    if not given or not wanted:
        return float(given == wanted)
    return 2 * (Counter(given) & Counter(wanted)).total() / (len(given) + len(wanted))


def figures(answers: Sequence[str], references: Sequence[Sequence[str]], settings: str) -> list[Metric]:
    """Shares in percent.  An answer counts by the reference that is nearest to it; "" is "cannot answer".

    Beside them: what a model scores that answers no question.
    """
    if len(answers) != len(references) or not answers:
        raise DataError(f"{len(answers)} answers cannot be compared with those of {len(references)} questions")
    exact, shared = scores(answers, references)
    signature = f"n:{len(answers)}|normalized:squad|of several references:the nearest|{settings}"
    answerable = [i for i, texts in enumerate(references) if all(texts)]
    others = [i for i, texts in enumerate(references) if not any(texts)]
    parts = {"F1 where there is an answer": answerable, "right where there is none": others}
    return [
        mean("F1", shared, signature),
        proportion("exact match", sum(exact), len(exact), signature),
        *(mean(name, [shared[i] for i in part], signature) for name, part in parts.items() if part),
        mean("F1 of answering nothing", scores([""] * len(answers), references)[1], signature),
    ]


class Best(NamedTuple):
    f1: float  # in percent
    threshold: float


def best_threshold(answers: Sequence[str], odds: Sequence[float], references: Sequence[Sequence[str]]) -> Best:
    """The F1 of giving only the answers whose odds are above the threshold that is best for these very questions.

    SQuAD's script calls it "best_f1": what the answers are worth if the threshold is right.
    """
    order = sorted((i for i, value in enumerate(odds) if value > -math.inf), key=lambda i: -odds[i])
    given, nothing = (scores(texts, references)[1] for texts in (answers, [""] * len(answers)))
    sums = list(accumulate((given[i] - nothing[i] for i in order), initial=sum(nothing)))  # of giving the first n
    falling = [odds[i] for i in order]
    bounds = [math.inf, *falling, -math.inf]
    n = max((n for n in range(len(sums)) if bounds[n] > bounds[n + 1]), key=sums.__getitem__)
    around = falling[max(n - 1, 0) : n + 1]
    if n == len(falling):  # all are given: anything below the last will do
        around = [value - 1 for value in falling[-1:]]
    return Best(100 * sums[n] / len(answers), sum(around) / max(len(around), 1))


def scores(answers: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[list[bool], list[float]]:
    """Exact match and F1 of each answer."""
    both = list(zip(answers, references, strict=True))
    exact = [any(normalized(answer) == normalized(text) for text in texts) for answer, texts in both]
    return exact, [max(f1(answer, text) for text in texts) for answer, texts in both]


def mean(name: str, values: Sequence[float], signature: str) -> Metric:
    """With the interval of a normal distribution, cut to what is possible."""
    n = len(values)
    middle = sum(values) / n
    half = Z * math.sqrt(sum((value - middle) ** 2 for value in values) / max(n - 1, 1) / n)
    between = (100 * max(middle - half, 0.0), 100 * min(middle + half, 1.0))
    return Metric(name=name, value=100 * middle, signature=f"{signature}|interval:normal 95%", interval=between)
