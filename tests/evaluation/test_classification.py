import random
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

from regard.errors import DataError
from regard.evaluation.classification import (
    classification,
    confusion_picture,
    confusion_rows,
    table_rows,
)
from regard.evaluation.measured import wilson

LABELS = ("ham", "news", "never", "spam")  # "never" is neither true nor predicted, "news" is true but not predicted
SOURCE = random.Random(0)
TRUE = SOURCE.choices(("ham", "news", "spam"), (6, 1, 3), k=200)
PREDICTED = [label if label != "news" and SOURCE.random() < 0.8 else SOURCE.choice(("ham", "spam")) for label in TRUE]
RESULT = classification(PREDICTED, TRUE, LABELS)


def test_the_figures_are_those_of_scikit_learn() -> None:
    assert RESULT.accuracy.value == pytest.approx(100 * accuracy_score(TRUE, PREDICTED))
    np.testing.assert_array_equal(RESULT.confusion, confusion_matrix(TRUE, PREDICTED, labels=LABELS))
    expected = precision_recall_fscore_support(TRUE, PREDICTED, labels=LABELS, zero_division=0)
    found = [(score.precision, score.recall, score.f1, 100 * score.n_true) for score in RESULT.labels]
    np.testing.assert_allclose(found, 100 * np.array(expected).T)
    macro = f1_score(TRUE, PREDICTED, labels=LABELS, average="macro", zero_division=0)
    assert RESULT.macro_f1.value == pytest.approx(100 * macro)
    assert RESULT.majority == pytest.approx(100 * accuracy_score(TRUE, ["ham"] * len(TRUE)))
    assert [score.n_predicted for score in RESULT.labels] == [PREDICTED.count(label) for label in LABELS]


@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (90, 100), (100, 100), (0, 50), (24_000, 25_000)])
def test_the_interval_is_wilsons(right: int, n: int) -> None:
    expected = binomtest(right, n).proportion_ci(0.95, method="wilson")
    assert wilson(right, n) == pytest.approx((100 * expected.low, 100 * expected.high), abs=1e-9)


def test_the_metric_says_its_settings_and_its_interval() -> None:
    low, high = RESULT.accuracy.interval or (0.0, 0.0)
    assert 0 < low < RESULT.accuracy.value < high < 100
    assert RESULT.accuracy.signature == "n:200|labels:4|interval:wilson 95%"
    assert "zero division:0" in RESULT.macro_f1.signature


def test_rows_for_people() -> None:
    rows = table_rows(RESULT)
    assert [row[0] for row in rows] == ["label", *LABELS, "mean"]
    assert {len(row) for row in rows} == {5}
    assert rows[3] == ("never", "0.0", "0.0", "0.0", "0")
    assert rows[-1][3:] == (f"{RESULT.macro_f1.value:.1f}", "200")
    table = confusion_rows(RESULT)
    assert table[0] == ("true \\ predicted", *LABELS)
    assert [[int(count) for count in row[1:]] for row in table[1:]] == [list(row) for row in RESULT.confusion]


def test_the_picture_is_darkest_on_the_diagonal_of_a_perfect_result(tmp_path: Path) -> None:
    perfect = classification(["a", "$b$"] * 5, ["a", "$b$"] * 5, ("$b$", "a"))
    wrong = classification(["$b$", "a"] * 5, ["a", "$b$"] * 5, ("$b$", "a"))
    for name, result in (("perfect", perfect), ("wrong", wrong)):
        confusion_picture(result, tmp_path / name)
    right, swapped = (imread(tmp_path / name, format="png")[..., 0] for name in ("perfect", "wrong"))
    assert right.shape == swapped.shape and not np.array_equal(right, swapped)
    dark = np.argwhere(right < 0.1)  # dark blue squares: top left and bottom right
    assert np.corrcoef(dark.T)[0, 1] > 0 > np.corrcoef(np.argwhere(swapped < 0.1).T)[0, 1]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataError, match="1 predictions cannot be compared with 2 labels"):
        classification(["a"], ["a", "b"], ("a", "b"))
    with pytest.raises(DataError, match="nothing to evaluate"):
        classification([], [], ("a", "b"))
    with pytest.raises(DataError, match="unknown label 'c'; the labels are: a, b"):
        classification(["a"], ["c"], ("a", "b"))
