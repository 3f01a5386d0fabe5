import pytest

from regard.data.report import THRESHOLD, advice
from regard.errors import DataError


def texts(n: int, n_words: int) -> list[str]:
    return ["word " * n_words] * n


def test_long_reviews_go_into_a_bag_and_many_short_texts_do_not() -> None:
    reviews = advice(texts(2500, 230))  # the shape of IMDb, a tenth of it
    assert reviews.startswith("2,500 samples ÷ 230.0 words each = 11: below about 1,500 a bag of bigrams")
    short = advice(texts(20_000, 4))
    assert "= 5,000: above about 1,500 a sequence model" in short


def test_the_rule_turns_at_the_threshold() -> None:
    assert ": below about 1,500 a bag of bigrams is hard to beat" in advice(texts(2 * THRESHOLD - 2, 2))
    assert ": above about 1,500 a sequence model should beat" in advice(texts(2 * THRESHOLD, 2))


def test_words_are_averaged_over_all_samples() -> None:
    assert advice(["a", "a b c"]).startswith("2 samples ÷ 2.0 words each = 1:")


@pytest.mark.parametrize("nothing", [[], ["", " "]])
def test_no_words_are_refused(nothing: list[str]) -> None:
    with pytest.raises(DataError, match="nothing to base advice on"):
        advice(nothing)
