import numpy as np
import pytest

from regard.data.batching.noise import Hiding, chances, keys

N = 400
LENGTHS = np.array([40] * N + [3, 2, 7])
MASK, WORDS = 4, np.arange(5, 105)


def texts(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of all texts, and which are fixed: the first and the last of each."""
    tokens = np.random.default_rng(seed).choice(WORDS, LENGTHS.sum())
    fixed = np.zeros(len(tokens), bool)
    ends = np.cumsum(LENGTHS)
    fixed[ends - 1] = fixed[ends - LENGTHS] = True
    return tokens, fixed


def hide(share: float = 0.15, draw: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    tokens, fixed = texts()
    found = Hiding(share, MASK, WORDS).hide(tokens, LENGTHS, fixed, keys(1, draw, np.arange(len(LENGTHS))))
    return tokens, found.tokens, found.places, found.labels


def test_what_is_hidden_is_told_and_the_rest_stays() -> None:
    tokens, hidden, places, labels = hide()
    assert (labels == tokens[places]).all() and (np.diff(places) > 0).all()
    rest = np.ones(len(tokens), bool)
    rest[places] = False
    assert (hidden[rest] == tokens[rest]).all()


def test_fifteen_percent_of_each_text_and_nothing_that_is_fixed() -> None:
    _, fixed = texts()
    *_, places, _ = hide()
    assert not fixed[places].any()
    text = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    # 15 % of 38, 1 and 5 free tokens, and at least one; a text that is fixed as a whole has none to hide.
    assert np.bincount(text[places], minlength=len(LENGTHS)).tolist() == [6] * N + [1, 0, 1]


def test_eighty_ten_ten() -> None:
    _, hidden, places, labels = hide()
    shown = hidden[places]
    by_mask, kept = (shown == MASK).mean(), (shown == labels).mean()
    other = shown[(shown != MASK) & (shown != labels)]
    assert by_mask == pytest.approx(0.8, abs=0.03)
    assert kept == pytest.approx(0.1, abs=0.03)  # some words are replaced by themselves
    assert len(other) / len(places) == pytest.approx(0.1, abs=0.03)
    assert len(np.unique(other)) > 80  # of 100 words, in about 240 draws


def test_every_place_is_hidden_about_as_often_as_any_other() -> None:
    counts = np.zeros(40)
    for draw in range(50):
        *_, places, _ = hide(draw=draw)
        counts += np.bincount(places[places < N * 40] % 40, minlength=40)
    share = counts[1:39] / (N * 50)
    assert share == pytest.approx(6 / 38, abs=0.02)
    assert counts[0] == counts[39] == 0


def test_chance_is_a_function_of_seed_draw_and_text() -> None:
    """A text is hidden in the same way whatever stands beside it, and differently in the next draw."""
    tokens, fixed = texts()
    hiding, place = Hiding(0.15, MASK, WORDS), slice(80, 120)
    alone = hiding.hide(tokens[place], LENGTHS[2:3], fixed[place], keys(1, 0, np.array([2])))
    _, together, *_ = hide()
    assert (alone.tokens == together[place]).all()
    for seed, draw in ((1, 1), (2, 0)):
        other = hiding.hide(tokens[place], LENGTHS[2:3], fixed[place], keys(seed, draw, np.array([2])))
        assert other.places.tolist() != alone.places.tolist()


def test_chances_are_even() -> None:
    drawn = chances(keys(5, 3, np.arange(4000)), 3)
    assert drawn.shape == (4000, 3) and drawn.min() >= 0 and drawn.max() < 1
    for column in drawn.T:
        assert np.histogram(column, 10, (0, 1))[0] == pytest.approx(400, abs=100)
    assert abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.06
