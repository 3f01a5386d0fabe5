"""The classifier with scikit-learn's interface, and scikit-learn's own checks of it."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import regard
from regard.errors import ConfigError
from regard.training.estimator import TextClassifier

TEXTS = [f"{'fine great' if place % 2 else 'awful dull'} word{place % 7}" for place in range(40)]
LABELS = np.array([3, 7])[np.arange(40) % 2]  # the classes are whatever y has
FEW = {"training.steps": 20}
ENOUGH = {"training.steps": 100, "training.learning_rate": 0.1}  # to learn what the checks ask for


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return regard.TextClassifier(settings=FEW).fit(TEXTS, LABELS)


def test_it_learns_and_predicts(fitted: TextClassifier) -> None:
    assert fitted.classes_.tolist() == [3, 7]
    assert fitted.predict(["a great word", "a dull word"]).tolist() == [7, 3]
    probabilities = fitted.predict_proba(TEXTS)
    assert probabilities.shape == (40, 2) and np.allclose(probabilities.sum(axis=1), 1)
    assert fitted.score(TEXTS, LABELS) == 1.0


def test_a_pickled_one_answers_alike(fitted: TextClassifier) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    assert again.run_.folder != fitted.run_.folder
    assert np.array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_a_clone_has_the_parameters_and_nothing_learned(fitted: TextClassifier) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and copy.get_params()["settings"] == FEW
    assert copy.set_params(random_state=5).random_state == 5 and fitted.random_state == 0
    with pytest.raises(Exception, match="not fitted yet"):
        copy.predict(TEXTS)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("one text", [1], "expected a list of texts, got one text"),
        ([["a"], ["b"]], [1, 2], "an array of 2 dimensions"),
        (["a", None], [1, 2], "expected texts, got NoneType at place 1"),
        (["a", "b"], [1, 1], "y has 1 class"),
        (["a", "b"], None, "the target y is None"),
        ([], [], "0 sample"),
    ],
)
def test_mistakes(texts: object, labels: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TextClassifier().fit(texts, labels)  # type: ignore[arg-type]


def test_a_recipe_as_a_dict_is_trained(tmp_path: Path) -> None:
    recipe = {
        "tokenizer": {"kind": "words", "vocab_size": 50},
        "model": {"architecture": "recurrent", "d_model": 8, "d_hidden": 8, "n_layers": 1, "dropout": 0.0},
        "training": {"steps": 2, "compile": "off"},
    }
    classifier = TextClassifier(recipe, folder=tmp_path / "kept").fit(TEXTS, LABELS)
    assert classifier.predict(TEXTS).shape == (40,)
    assert regard.load(tmp_path / "kept" / "run").recipe.architecture == "recurrent"


class RowClassifier(TextClassifier):
    """A row of numbers as a text of words: scikit-learn's checks give numbers, and so all of them can be run."""

    def fit(self, X, y):  # type: ignore[no-untyped-def]
        numbers, labels = validate_data(self, X, y, ensure_min_samples=2)
        return super().fit(words(numbers), labels)

    def predict_proba(self, X):  # type: ignore[no-untyped-def]
        check_is_fitted(self, "run_")
        return super().predict_proba(words(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):  # type: ignore[no-untyped-def]
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = False, True, False
        return tags


def words(rows: np.ndarray) -> list[str]:
    return [" ".join(f"f{place}x{round(2 * value)}" for place, value in enumerate(row)) for row in rows.tolist()]


# Checks that ask for what this classifier does not offer.
NOT_ASKED: dict[str, str] = {}


@pytest.mark.slow  # a few hundred small trainings
def test_it_passes_the_checks_of_scikit_learn() -> None:
    results = check_estimator(RowClassifier(settings=ENOUGH), expected_failed_checks=NOT_ASKED, on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
    assert sum(result["status"] == "passed" for result in results) > 40
