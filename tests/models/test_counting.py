from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_markov import V, flat

from regard.errors import DataError
from regard.models import counting
from regard.models.counting import NGrams, SkipPairs, count
from regard.models.markov import Markov, MarkovConfig

SENTENCES = st.lists(st.lists(st.integers(0, 4), max_size=9), max_size=8)


@settings(max_examples=40, deadline=None)
@given(SENTENCES, SENTENCES, st.integers(1, 4), st.integers(1, 7))
def test_ngrams_are_counted_as_by_hand(first, second, order, chunk):
    counter = NGrams(5, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "CHUNK", chunk)
        count([flat(first), flat(second)], 5, [counter], needed=0)
        levels = counter.total()
    expected = [Counter() for _ in range(order + 1)]
    for sentence in first + second:
        padded = [5] * order + sentence  # 5: the boundary
        for k in range(order + 1):
            expected[k].update(tuple(padded[i - k : i + 1]) for i in range(order + 1, len(padded)))
    names = [(word,) for word in range(6)]
    for k, (keys, counts) in enumerate(levels):
        assert (np.diff(keys) > 0).all()
        names = names if k == 0 else [(*names[key // 6], int(key % 6)) for key in keys]
        found = {name: int(times) for name, times in zip(names, counts, strict=True) if times}
        assert found == expected[k]


@settings(max_examples=40, deadline=None)
@given(SENTENCES, SENTENCES, st.integers(0, 4), st.integers(1, 7))
def test_skip_pairs_are_counted_as_by_hand(first, second, reach, chunk):
    counter = SkipPairs(5, reach)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "CHUNK", chunk)
        count([flat(first), flat(second)], 5, [counter], needed=0)
        ((keys, counts),) = counter.total()
    expected = Counter(
        (s[i - 1], s[j], s[i])
        for s in first + second
        for i in range(2, len(s))
        for j in range(max(0, i - 1 - (reach or i)), i - 1)
    )
    assert (np.diff(keys) > 0).all()
    assert {(k // 25, k // 5 % 5, k % 5): int(c) for k, c in zip(keys.tolist(), counts, strict=True)} == expected


def test_the_report_says_what_was_counted():
    report = Markov(MarkovConfig(vocab_size=V, order=1)).count([flat([[1, 2, 3], [1, 2]])])
    assert report.n_tokens == 5 and report.n_counts == V + 1 + 2  # words and the boundary; 1 2, 2 3
    assert report.seconds > 0
    assert "5 tokens" in str(report)


@pytest.mark.parametrize(
    ("sentences", "says"),
    [
        ([], "at least 4 tokens, and the longest of the text has 0"),
        ([[]], "the longest of the text has 0"),
        ([[1], [2]], "the longest of the text has 1"),
        ([[1, 2, 3], [1, 2]], "order needs a sequence of at least 4 tokens, and the longest of the text has 3"),
        ([[1, 2, 3, V]], "token 7 is outside of the vocabulary, which has 7"),
        ([[1, 2, -1, 3]], "token -1 is outside"),
    ],
)
def test_texts_that_cannot_be_counted(sentences, says):
    with pytest.raises(DataError, match=says):
        Markov(MarkovConfig(vocab_size=V, order=3)).count([flat(sentences)])


def test_lengths_must_be_those_of_the_text():
    with pytest.raises(DataError, match="make 4 tokens, but there are 3"):
        Markov(MarkovConfig(vocab_size=V)).count([(np.array([1, 2, 3]), np.array([4]))])
