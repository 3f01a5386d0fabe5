import random

import numpy as np
import pytest
import sacrebleu

from regard.errors import DataError
from regard.evaluation.translation import (
    bleu,
    caption_bleu,
    caption_match,
    chrf,
    exact_match,
    paired,
    paired_captions,
)

WORDS = ["the", "a", "Dog", "cat", "House", "river", "runs", "sleeps", "sees", "quickly", "old", "in", "of", "and"]


def sentences(n: int, seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choices(WORDS, k=source.randint(5, 12))) + "." for _ in range(n)]


def spoil(lines: list[str], share: float, seed: int) -> list[str]:
    source = random.Random(seed)
    return [" ".join(source.choice(WORDS) if source.random() < share else w for w in line.split()) for line in lines]


REFERENCES = sentences(80, 0)
OUTPUTS = spoil(REFERENCES, 0.2, 1)


def test_the_figures_are_those_of_sacrebleu() -> None:
    assert bleu(OUTPUTS, REFERENCES).value == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert chrf(OUTPUTS, REFERENCES).value == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    low = [line.lower() for line in OUTPUTS]
    assert bleu(low, REFERENCES).value < bleu(low, REFERENCES, lowercase=True).value
    assert bleu(low, REFERENCES, lowercase=True).value == bleu(OUTPUTS, REFERENCES, lowercase=True).value


def test_signatures_tell_the_settings() -> None:
    assert bleu(OUTPUTS, REFERENCES, resamples=0).signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    assert "case:lc" in bleu(OUTPUTS, REFERENCES, lowercase=True).signature
    assert "bs:1000|seed:12345" in bleu(OUTPUTS, REFERENCES).signature
    assert bleu(OUTPUTS, REFERENCES).name != bleu(OUTPUTS, REFERENCES, lowercase=True).name


def test_an_interval_holds_the_value_and_is_the_same_twice() -> None:
    metric = bleu(OUTPUTS, REFERENCES)
    assert metric.interval is not None
    assert metric.interval[0] < metric.value < metric.interval[1]
    assert metric == bleu(OUTPUTS, REFERENCES)
    assert bleu(OUTPUTS, REFERENCES, resamples=0).interval is None


def test_resamples_in_which_nothing_matches_count_as_zero() -> None:
    metric = chrf(["Un chien.", ""], ["Un chien.", "Un chat."])
    assert metric.interval is not None
    assert metric.interval[1] - metric.interval[0] > 90  # about from nothing to all


@pytest.mark.parametrize("n_right", [1, 5, 9])
def test_an_interval_stays_on_the_scale(n_right: int) -> None:
    outputs = [line if i < n_right else "no" for i, line in enumerate(REFERENCES[:10])]
    for metric in (bleu(outputs, REFERENCES[:10]), chrf(outputs, REFERENCES[:10])):
        assert metric.interval is not None
        assert 0 <= metric.interval[0] <= metric.value <= metric.interval[1] <= 100


def test_exact_match_is_a_share() -> None:
    metric = exact_match(["a b", "c ", "d"], ["a b", "c", "D"])
    assert metric.value == pytest.approx(200 / 3)
    assert "n:3" in metric.signature


@pytest.mark.slow  # a thousand draws of a corpus
def test_a_clear_difference_is_significant_and_none_is_not() -> None:
    worse = spoil(REFERENCES, 0.6, 2)
    for comparison in paired(OUTPUTS, worse, REFERENCES):
        assert comparison.value_a > comparison.value_b
        assert comparison.p < 0.05
    rivals = paired(OUTPUTS, spoil(REFERENCES, 0.2, 3), REFERENCES)
    assert [comparison.name for comparison in rivals] == ["BLEU", "BLEU lower-cased", "chrF"]
    assert all(comparison.p > 0.05 for comparison in rivals)
    assert all(comparison.p == 1.0 for comparison in paired(OUTPUTS, OUTPUTS, REFERENCES))
    assert all("bs:1000" in comparison.signature for comparison in rivals)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(DataError, match="1 outputs cannot be compared with 2 references"):
        bleu(["a"], ["a", "b"])
    with pytest.raises(DataError, match="nothing to evaluate"):
        exact_match([], [])
    with pytest.raises(DataError, match="2 outputs cannot"):
        paired(["a"], ["a", "b"], ["a"])


def test_captions_are_compared_with_all_of_their_references() -> None:
    """By hand: clipped n-grams of the reference that has most of each, and the length of the closest."""
    outputs, references = ["A dog runs fast"], [["a dog sleeps", "the dog runs very fast"]]
    for order, precisions in ((1, [4 / 4]), (2, [4 / 4, 2 / 3])):
        brevity = 1.0  # of three and five words, as near to four, the shorter counts
        mean = float(np.exp(np.mean(np.log(precisions))))
        assert caption_bleu(outputs, references, order, resamples=0).value == pytest.approx(100 * brevity * mean)


def test_two_captioners_are_compared_with_all_references() -> None:
    references = [[line, other][: 1 + i % 2] for i, (line, other) in enumerate(zip(REFERENCES, OUTPUTS, strict=True))]
    worse = spoil(REFERENCES, 0.6, 2)
    comparisons = paired_captions(OUTPUTS, worse, references)
    for order, comparison in enumerate(comparisons, start=1):
        ours, theirs = (caption_bleu(outputs, references, order, resamples=0) for outputs in (OUTPUTS, worse))
        assert (comparison.name, comparison.value_a) == (ours.name, pytest.approx(ours.value))
        assert comparison.value_b == pytest.approx(theirs.value)
        assert comparison.p < 0.05 and comparison.signature.endswith(f"|order:{order}")
    assert [comparison.p for comparison in paired_captions(worse, worse, references)] == [1.0] * 4
    with pytest.raises(DataError, match="1 outputs cannot be compared with 80"):
        paired_captions(OUTPUTS, OUTPUTS[:1], references)


def test_captions_may_have_different_numbers_of_references() -> None:
    others = spoil(REFERENCES, 0.5, 2)
    both = [[a, b] for a, b in zip(REFERENCES, others, strict=True)]
    some = [own[: 1 + i % 2] for i, own in enumerate(both)]
    expected = sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES, others], lowercase=True).score
    assert caption_bleu(OUTPUTS, both, resamples=0).value == expected
    metric = caption_bleu(OUTPUTS, some, resamples=0)
    assert metric.signature.startswith("nrefs:var|case:lc|eff:no|tok:13a") and metric.signature.endswith("|order:4")
    alone = [[line] for line in REFERENCES]
    assert caption_bleu(OUTPUTS, alone).value <= metric.value <= expected
    assert caption_bleu(OUTPUTS, alone, resamples=0).value == bleu(OUTPUTS, REFERENCES, lowercase=True).value
    assert [caption_bleu(OUTPUTS, alone, order, 0).name for order in (1, 2)] == ["BLEU-1", "BLEU-2"]
    with pytest.raises(DataError, match="1 outputs cannot be compared with 80"):
        caption_bleu(OUTPUTS[:1], alone)


def test_a_caption_matches_if_it_equals_one_of_its_references() -> None:
    references = [["a red circle", "a circle "], ["a square"], ["a cross", "a red cross"], ["a cross", "a red cross"]]
    match = caption_match(["a circle", "A square", " a red cross", "a red"], references)
    assert (match.name, match.value) == ("exact match", 50.0)
    assert match.interval is not None and match.interval[0] < 50 < match.interval[1]
