"""The five noises of BART, T5's spans and XLNet's turns: what stays, what goes, how much, and that chance is a key."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batching.noise import (
    NOISES,
    Draws,
    Noise,
    corrupt_spans,
    hidden_spans,
    infill,
    n_sentinels,
    predicted_spans,
    turns,
)

MASK, STOP = 4, 50  # tokens
SENTINELS = np.arange(60, 100)


def noise(share: float = 0.3, mean_span: float = 3.0, anywhere: bool = False) -> Noise:
    return Noise(share, mean_span, MASK, np.arange(5000) == STOP, SENTINELS, anywhere)


def text(n: int) -> np.ndarray:
    return np.arange(100, 100 + n)


def is_subsequence(short: np.ndarray, long: np.ndarray) -> bool:
    rest = iter(long.tolist())
    return all(token in rest for token in short.tolist())


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 200])
def test_a_noise_is_a_function_of_its_key_and_leaves_the_text_alone(name: str, n: int) -> None:
    tokens = text(n)
    once, again = (NOISES[name](tokens, Draws(1, 2, 3), noise()) for _ in range(2))
    assert np.array_equal(once, again) and np.array_equal(tokens, text(n))
    if n == 200:
        tokens[::10] = STOP
        assert not np.array_equal(NOISES[name](tokens, Draws(9), noise()), NOISES[name](tokens, Draws(8), noise()))


def test_masking_hides_in_place() -> None:
    spoilt = NOISES["mask"](text(2000), Draws(0), noise())
    hidden = spoilt == MASK
    assert np.array_equal(spoilt[~hidden], text(2000)[~hidden])
    assert hidden.mean() == pytest.approx(0.3, abs=0.04)


def test_deletion_leaves_no_mark() -> None:
    spoilt = NOISES["delete"](text(2000), Draws(0), noise())
    assert MASK not in spoilt and is_subsequence(spoilt, text(2000))
    assert len(spoilt) / 2000 == pytest.approx(0.7, abs=0.04)


@settings(deadline=None, max_examples=60)
@given(n=st.integers(0, 300), key=st.integers(0, 10_000), share=st.floats(0.01, 0.9), mean=st.floats(1, 8))
def test_infilling_hides_exactly_its_share(n: int, key: int, share: float, mean: float) -> None:
    spoilt = infill(text(n), Draws(key), noise(share, mean))
    kept = spoilt[spoilt != MASK]
    assert len(kept) == n - round(n * share)
    assert is_subsequence(kept, text(n))


def test_the_spans_of_infilling_are_poisson() -> None:
    """About one mask in twenty hides nothing (e^-3), and three tokens are hidden on average."""
    spoilt = infill(text(4000), Draws(5), noise())
    n_masks = int((spoilt == MASK).sum())
    assert 1200 / n_masks == pytest.approx(3, abs=0.3)
    drawn = Draws(1).poisson(3.0, 50_000)
    for k, p in enumerate([0.0498, 0.1494, 0.2240, 0.2240, 0.1680]):
        assert (drawn == k).mean() == pytest.approx(p, abs=0.01)
    assert drawn.mean() == pytest.approx(3, abs=0.05)


def test_permutation_keeps_every_sentence_whole() -> None:
    sentences = [[101, 102, STOP], [103, STOP], [104, 105, 106, STOP], [107, 108]]
    tokens = np.concatenate(sentences)
    orders = set()
    for key in range(200):
        spoilt = NOISES["permute"](tokens, Draws(key), noise()).tolist()
        places = sorted((spoilt.index(s[0]), i) for i, s in enumerate(sentences))
        assert spoilt == [token for _, i in places for token in sentences[i]]
        orders.add(tuple(i for _, i in places))
    assert len(orders) == 24  # all of them


def test_rotation_begins_anywhere() -> None:
    found = {int(NOISES["rotate"](text(10), Draws(key), noise())[0]) for key in range(200)}
    assert found == set(text(10).tolist())
    spoilt = NOISES["rotate"](text(10), Draws(3), noise())
    k = int(spoilt[0]) - 100
    assert np.array_equal(spoilt, np.concatenate([text(10)[k:], text(10)[:k]]))


def restored(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Put the spans of a T5 target back into its source."""
    gaps = np.split(target, np.flatnonzero(np.isin(target, SENTINELS)))[1:]
    spans = {int(gap[0]): gap[1:] for gap in gaps}
    return np.concatenate([spans[int(t)] if int(t) in spans else np.array([t]) for t in source])


@settings(deadline=None, max_examples=100)
@given(n=st.integers(2, 250), key=st.integers(0, 10_000), share=st.floats(0.05, 0.5), mean=st.floats(1, 6))
def test_source_and_target_of_spans_give_back_the_text(n: int, key: int, share: float, mean: float) -> None:
    tokens = text(n)
    source, target = corrupt_spans(tokens, Draws(key), noise(share, mean))
    assert np.array_equal(restored(source, target), tokens)
    n_hidden = min(max(round(n * share), 1), n - 1)
    n_gaps = int(np.isin(source, SENTINELS).sum())
    assert source[0] == tokens[0]  # the text begins with a kept token
    assert len(source) == n - n_hidden + n_gaps and len(target) == n_hidden + n_gaps + 1
    assert np.array_equal(source[np.isin(source, SENTINELS)], SENTINELS[:n_gaps])  # numbered from the left
    assert np.array_equal(target[np.isin(target, SENTINELS)], SENTINELS[: n_gaps + 1])


@settings(deadline=None, max_examples=100)
@given(n=st.integers(2, 250), key=st.integers(0, 10_000), share=st.floats(0.05, 0.5), mean=st.floats(1, 6))
def test_spans_anywhere_give_back_the_text(n: int, key: int, share: float, mean: float) -> None:
    tokens = text(n)
    source, target = corrupt_spans(tokens, Draws(key), noise(share, mean, anywhere=True))
    assert np.array_equal(restored(source, target), tokens)
    n_gaps = int(np.isin(source, SENTINELS).sum())
    assert n_gaps < n_sentinels(n, share, mean, anywhere=True) or n_gaps == len(SENTINELS) - 1
    assert np.array_equal(target[np.isin(target, SENTINELS)], SENTINELS[: n_gaps + 1])


@pytest.mark.parametrize("share", [0.15, 0.5, 0.8])
def test_spans_anywhere_hide_all_places_alike_and_their_share_on_average(share: float) -> None:
    chances = np.mean([hidden_spans(20, Draws(k), noise(share, 1.0, anywhere=True)) for k in range(1000)], 0)
    assert chances.mean() == pytest.approx(share, abs=0.02)
    assert chances.min() > share - 0.07 and chances.max() < share + 0.07  # the first and the last token, too


def test_the_worked_example_of_spans() -> None:
    """15 % in spans of 3: of 100 tokens 15 in 5 spans, none next to another."""
    hidden = hidden_spans(100, Draws(0), noise(0.15))
    begins = hidden & ~np.concatenate([[False], hidden[:-1]])
    assert hidden.sum() == 15 and begins.sum() == 5
    mean = np.mean([hidden_spans(100, Draws(key), noise(0.15)) for key in range(400)], 0)
    assert mean[5:-8].min() > 0.08 and mean[5:-8].max() < 0.25  # no place is spared or chosen ...
    assert mean[0] == 0 and mean[-1] == 1  # ... but the first and the last


def test_one_token_has_nothing_to_hide() -> None:
    source, target = corrupt_spans(text(1), Draws(0), noise())
    assert source.tolist() == [100] and target.tolist() == [SENTINELS[0]]


def test_predicted_spans_have_their_share_and_length() -> None:
    chosen = predicted_spans(30_000, Draws(2), 1 / 6, 5)
    assert chosen.mean() == pytest.approx(1 / 6, abs=0.01)
    ranks = turns(chosen, Draws(3))
    assert set(ranks[~chosen]) == {0}
    assert sorted(ranks[chosen]) == list(range(1, int(chosen.sum()) + 1))
    assert not np.array_equal(ranks[chosen], np.sort(ranks[chosen]))
