"""F1 and exact match, by worked examples and by the rules of SQuAD's own script."""

import pytest

from regard.errors import DataError
from regard.evaluation.answers import best_threshold, f1, figures, normalized

INF = float("inf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  U.S.!", "us"),
        ("a cat, an owl and the dog", "cat owl and dog"),
        ("theatre", "theatre"),  # no article, though it begins like one
        ("the", ""),
        ("10,000", "10000"),
        ("“Denver”", "“denver”"),  # only ASCII punctuation is left out
        ("Der Hund", "der hund"),  # as in the published figures of XQuAD
        ("an-the", "anthe"),  # punctuation goes first, so these are no articles any more
    ],
)
def test_normalised(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("the Denver Broncos", "Denver Broncos!", 1.0),
        ("Broncos", "Denver Broncos", 2 / 3),  # precision 1, recall 1/2
        ("Denver Broncos of Denver", "Denver Broncos", 2 / 3),  # precision 2/4, recall 1
        ("Panthers", "Denver Broncos", 0.0),
        ("to be to be", "to to", 2 / 3),  # words count as often as they are on both sides
        ("", "", 1.0),
        ("", "Denver", 0.0),
        ("Denver", "", 0.0),
        ("the", "", 1.0),  # nothing is left of an article alone
    ],
)
def test_f1_by_hand(answer: str, reference: str, expected: float) -> None:
    assert f1(answer, reference) == pytest.approx(expected)
    assert f1(reference, answer) == pytest.approx(expected)
    assert (normalized(answer) == normalized(reference)) == (expected == 1)


def test_figures_by_hand() -> None:
    """Four questions: right by the second reference; half right; rightly and wrongly not answered."""
    references = [["Ann", "Ann Lee"], ["Denver Broncos"], ["", ""], ["Bob"]]
    found = {m.name: m for m in figures(["Ann Lee", "Broncos", "", ""], references, "history:0")}
    assert found["F1"].value == pytest.approx(100 * (1 + 2 / 3 + 1 + 0) / 4)
    assert found["exact match"].value == 50
    assert found["F1 where there is an answer"].value == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert found["right where there is none"].value == 100
    assert found["F1 of answering nothing"].value == 25
    assert found["F1"].signature.startswith("n:4|") and "history:0" in found["F1"].signature
    for metric in found.values():
        assert metric.interval is not None and metric.interval[0] <= metric.value <= metric.interval[1]


def test_people_who_disagree_whether_there_is_an_answer() -> None:
    """Either is right, and the question belongs to neither of the two groups."""
    for answer in ("Ann", ""):
        found = {m.name: m.value for m in figures([answer], [["Ann", ""]], "")}
        assert found["F1"] == found["exact match"] == 100
        assert "F1 where there is an answer" not in found and "right where there is none" not in found


def test_every_answer_needs_its_question() -> None:
    with pytest.raises(DataError, match="2 answers"):
        figures(["a", "b"], [["a"]], "")


@pytest.mark.parametrize(
    ("odds", "expected"),
    [
        ([3.0, 2.0, 1.0, 0.0], (75, 1.5)),  # right, right, wrong as there is none, half right: two of them are given
        ([0.0, 1.0, 2.0, 3.0], (62.5, -1.0)),  # all are given, for the wrong one cannot be told from the right ones
        ([1.0, 1.0, 1.0, 1.0], (62.5, 0.0)),  # all or none
        ([2.0, -INF, -INF, 1.0], (62.5, 0.0)),  # without a context there is no answer to give
        ([-INF] * 4, (25, 0.0)),
    ],
)
def test_the_best_threshold_by_hand(odds: list[float], expected: tuple[float, float]) -> None:
    answers, references = ["Ann", "Bob", "Eve", "x y z"], [["Ann"], ["Bob"], [""], ["x"]]
    found = best_threshold(answers, odds, references)
    assert found == pytest.approx(expected)
    given = [answer if value > found.threshold else "" for answer, value in zip(answers, odds, strict=True)]
    assert found.f1 == pytest.approx(figures(given, references, "")[0].value)  # it is what that threshold gives
