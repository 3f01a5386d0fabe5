"""Accuracy with its interval, precision, recall and F1 of every label or tag, and the confusion matrix."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.errors import DataError
from regard.evaluation.measured import Metric, percent, proportion


@dataclass(frozen=True, kw_only=True)
class LabelScore:
    """Shares in percent.  One that divides by nothing (a label never predicted, or never there) is 0."""

    label: str
    precision: float  # of those predicted so, how many are
    recall: float  # of those that are, how many were predicted so
    f1: float
    n_true: int
    n_predicted: int


@dataclass(frozen=True, kw_only=True)
class ClassificationFigures:
    accuracy: Metric
    majority: float  # accuracy of always predicting the majority class
    macro_f1: Metric  # the mean of the labels' F1, rare ones counting as much as frequent ones
    labels: tuple[LabelScore, ...]
    confusion: tuple[tuple[int, ...], ...]  # rows: the true label; columns: the predicted one


def classification(predicted: Sequence[str], true: Sequence[str], label_set: Sequence[str]) -> ClassificationFigures:
    """`label_set` gives the order of the rows; a label outside it is an error."""
    table = confusion(predicted, true, label_set)
    n, n_right = int(table.sum()), int(table.trace())
    n_true, n_predicted = table.sum(1), table.sum(0)
    scores = tuple(
        LabelScore(
            label=label,
            precision=percent(table[i, i], n_predicted[i]),
            recall=percent(table[i, i], n_true[i]),
            f1=percent(2 * table[i, i], n_true[i] + n_predicted[i]),
            n_true=int(n_true[i]),
            n_predicted=int(n_predicted[i]),
        )
        for i, label in enumerate(label_set)
    )
    mean = sum(score.f1 for score in scores) / len(scores)
    settings = f"n:{n}|labels:{len(scores)}"
    return ClassificationFigures(
        accuracy=proportion("accuracy", n_right, n, settings),
        majority=percent(n_true.max(), n),
        macro_f1=Metric(name="macro F1", value=mean, signature=f"{settings}|zero division:0"),
        labels=scores,
        confusion=tuple(tuple(int(count) for count in row) for row in table),
    )


def confusion(predicted: Sequence[str], true: Sequence[str], label_set: Sequence[str]) -> np.ndarray:
    """(labels, labels): how many of each true label (row) were predicted as each label (column)."""
    if len(predicted) != len(true):
        raise DataError(f"{len(predicted)} predictions cannot be compared with {len(true)} labels: each needs its own")
    if not true:
        raise DataError("there is nothing to evaluate: no predictions and no labels")
    place = {label: i for i, label in enumerate(label_set)}
    strange = next((label for label in (*true, *predicted) if label not in place), None)
    if strange is not None:
        raise DataError(f"unknown label {strange!r}; the labels are: {', '.join(label_set)}")
    table = np.zeros((len(label_set), len(label_set)), np.int64)
    np.add.at(table, ([place[label] for label in true], [place[label] for label in predicted]), 1)
    return table


def table_rows(result: ClassificationFigures) -> list[tuple[str, ...]]:
    """For people: a row of headings, a row for every label, a row for all."""
    rows = [(score.label, score.precision, score.recall, score.f1, score.n_true) for score in result.labels]
    precision, recall = (np.mean([row[column] for row in rows]) for column in (1, 2))
    n = sum(score.n_true for score in result.labels)
    rows.append(("mean", float(precision), float(recall), result.macro_f1.value, n))
    shown = [(name, f"{p:.1f}", f"{r:.1f}", f"{f1:.1f}", f"{n:,}") for name, p, r, f1, n in rows]
    return [("label", "precision", "recall", "F1", "examples"), *shown]


def confusion_rows(result: ClassificationFigures) -> list[tuple[str, ...]]:
    """For people: the true label of each row, then how often it was taken for each label."""
    names = [score.label for score in result.labels]
    counts = zip(names, result.confusion, strict=True)
    return [("true \\ predicted", *names), *((name, *(f"{count:,}" for count in row)) for name, row in counts)]


def confusion_picture(result: ClassificationFigures, path: str | Path) -> None:
    """A PNG: each square has its count and is shaded by its share of the row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # seconds to import, and seldom wanted
    from matplotlib.figure import Figure

    names = [score.label for score in result.labels]
    counts = np.array(result.confusion)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    side = max(2.4, 0.55 * len(names))
    figure = Figure(figsize=(side + 1.6, side + 1.0), dpi=160, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(names))
    axes.set_xticks(places, names, rotation=0 if len(names) < 4 else 55, parse_math=False)
    axes.set_yticks(places, names, parse_math=False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    for i, j in np.ndindex(counts.shape):
        color = "white" if shares[i, j] > 0.5 else "black"
        axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=color, fontsize=8)
    axes.set_title(f"accuracy {result.accuracy.value:.2f} %", fontsize=10)
    figure.savefig(path, format="png")


def unigram_tags(words: Sequence[str], tags: Sequence[str], asked: Sequence[str]) -> list[str]:
    """A baseline: the tag that each asked word had most often in training, whose words and tags these are; for a word
    that was not there, the most frequent of all."""
    tallies: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(words, tags, strict=True):
        tallies[word][tag] += 1
    best = {word: most_frequent(tally) for word, tally in tallies.items()}
    default = most_frequent(Counter(tags))
    return [best.get(word, default) for word in asked]


def unigram_numbers(words: Sequence[str], numbers: np.ndarray, asked: Sequence[str]) -> np.ndarray:
    """The same for numbers: the mean number of each asked word in training, or of all."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for word, number in zip(words, numbers.tolist(), strict=True):
        sums[word][0] += number
        sums[word][1] += 1
    default = float(numbers.mean())
    return np.array([sums[word][0] / sums[word][1] if word in sums else default for word in asked])


def most_frequent(tally: Counter[str]) -> str:
    """Of equals, the first in the alphabet, whatever the order of the data."""
    return min(tally, key=lambda tag: (-tally[tag], tag))


def tag_figures(
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
