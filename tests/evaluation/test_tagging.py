"""Figures of tags: scikit-learn as the oracle, and a baseline that can be done by hand."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from regard.evaluation.classification import beside, tag_figures, unigram_tags

TAGS = ("O", "A", "B", "never")


@pytest.mark.parametrize("neutral", ["O", "A", ""])
def test_figures_are_scikit_learns(neutral: str) -> None:
    random = np.random.default_rng(0)
    true = random.choice(TAGS[:3], 300, p=[0.7, 0.2, 0.1]).tolist()
    predicted = [tag if random.random() < 0.7 else str(random.choice(TAGS)) for tag in true]
    found = {metric.name: metric.value for metric in tag_figures(predicted, true, TAGS, neutral)}
    counted = [tag for tag in TAGS[:3] if tag != neutral]
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(true, predicted))
    assert found["macro F1"] == pytest.approx(100 * f1_score(true, predicted, labels=counted, average="macro"))
    every = [tag for tag in TAGS if tag != neutral]  # a tag that is predicted but never true counts against micro F1
    assert found["micro F1"] == pytest.approx(100 * f1_score(true, predicted, labels=every, average="micro"))
    each = 100 * f1_score(true, predicted, labels=list(TAGS[:3]), average=None)
    assert [found[f"F1 of {tag}"] for tag in TAGS[:3]] == pytest.approx(each.tolist())
    assert "F1 of never" not in found


def test_without_a_neutral_tag_micro_f1_is_accuracy() -> None:
    found = tag_figures(["A", "B", "B"], ["A", "A", "B"], ("A", "B"), "")
    assert found[0].value == pytest.approx(found[1].value)


def test_nothing_but_neutral_words() -> None:
    found = {metric.name: metric.value for metric in tag_figures(["O"], ["O"], ("O", "A"), "O")}
    assert found == {"accuracy": 100, "micro F1": 0, "macro F1": 0, "F1 of O": 100}


def test_unigrams_know_the_most_frequent_tag_of_each_word() -> None:
    words, tags = ["a", "a", "a", "b", "b", "c", "c"], ["X", "Y", "Y", "Z", "X", "X", "X"]
    asked = ["a", "b", "c", "unknown"]
    assert unigram_tags(words, tags, asked) == ["Y", "X", "X", "X"]
    # of equals the first in the alphabet, whatever the order
    assert unigram_tags(words[::-1], tags[::-1], asked) == ["Y", "X", "X", "X"]


def test_the_baseline_stands_under_each_figure() -> None:
    answers = ((["A", "C"], ""), (["A", "A"], "base: "))  # whatever tags the two predict
    ours, theirs = (tag_figures(predicted, ["A", "B"], ("A", "B", "C"), "", who) for predicted, who in answers)
    assert [metric.name for metric in beside(ours, theirs)][:4] == [
        "accuracy",
        "base: accuracy",
        "micro F1",
        "base: micro F1",
    ]
