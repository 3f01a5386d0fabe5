"""Accuracy and F1 of tags, beside the baseline that knows each word's most frequent tag and nothing else."""

from collections import Counter
from collections.abc import Sequence

from regard.evaluation.classification import classification
from regard.evaluation.metric import Metric, percent


class Unigrams:
    """The tag that each word had most often in training; for a word that was not there, the most frequent of all."""

    def __init__(self, words: Sequence[str], tags: Sequence[str]):
        counts = Counter(zip(words, tags, strict=True))
        self.default = most_frequent(Counter(tags))
        by_word: dict[str, Counter[str]] = {}
        for (word, tag), n in counts.items():
            by_word.setdefault(word, Counter())[tag] = n
        self.best = {word: most_frequent(tally) for word, tally in by_word.items()}

    def predict(self, words: Sequence[str]) -> list[str]:
        return [self.best.get(word, self.default) for word in words]


def most_frequent(tally: Counter[str]) -> str:
    """Of equals, the first in the alphabet, whatever the order of the data."""
    return min(tally, key=lambda tag: (-tally[tag], tag))


def figures(
    predicted: Sequence[str], true: Sequence[str], tag_set: Sequence[str], neutral: str, who: str = ""
) -> list[Metric]:
    """Accuracy; F1 of all tags but the neutral one, by words (micro) and by tags (macro); F1 of each tag.

    The tags are those that the true ones have, so that two systems are measured on the same.
    """
    result = classification(predicted, true, tag_set)
    scores = [score for score in result.labels if score.n_true]
    counted = [score for score in scores if score.label != neutral]
    settings = f"n:{len(true)}|tags:{len(scores)}|without:{neutral or 'none'}"
    mean = sum(score.f1 for score in counted) / len(counted) if counted else 0.0
    # 2 · right / (true + predicted), all over the words whose tag is not the neutral one
    right = sum(row[i] for i, row in enumerate(result.confusion) if result.labels[i].label != neutral)
    n_both = sum(score.n_true + score.n_predicted for score in result.labels if score.label != neutral)
    values = {"micro F1": percent(2 * right, n_both), "macro F1": mean}
    values |= {f"F1 of {score.label}": score.f1 for score in scores}
    accuracy = result.accuracy
    return [
        Metric(name=who + "accuracy", value=accuracy.value, signature=settings, interval=accuracy.interval),
        *(Metric(name=who + name, value=value, signature=settings) for name, value in values.items()),
    ]


def beside(model: Sequence[Metric], baseline: Sequence[Metric]) -> list[Metric]:
    """Each figure, and under it the baseline's."""
    return [metric for pair in zip(model, baseline, strict=True) for metric in pair]
