"""Orders that are computed, and epochs that are made pool by pool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching import computed_order
from regard.data.batching.computed_order import ComputedOrder, FitItems, PooledEpochs
from regard.errors import ConfigError, DataError


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**40), epoch=st.integers(0, 2**20))
def test_a_permutation_has_every_place_once(n: int, seed: int, epoch: int) -> None:
    order = ComputedOrder(n, seed, epoch)(np.arange(n))
    assert np.array_equal(np.sort(order), np.arange(n))


def test_orders_differ_with_seed_and_epoch_and_look_like_chance() -> None:
    n = 10_000
    orders = [ComputedOrder(n, *key)(np.arange(n)) for key in ((0, 0), (0, 1), (1, 0), (1, 1))]
    for i, order in enumerate([*orders, np.arange(n)]):
        for other in orders[:i]:
            assert abs(np.corrcoef(order, other)[0, 1]) < 0.05
            assert (order == other).sum() < 20  # one on average
    assert abs(np.corrcoef(orders[0][:-1], orders[0][1:])[0, 1]) < 0.05


def test_any_place_can_be_asked_for_alone() -> None:
    permutation = ComputedOrder(10**12 + 7, 5, 3)
    places = np.array([0, 1, 10**12, 77])
    assert np.array_equal(permutation(places), np.concatenate([permutation(places[i : i + 1]) for i in range(4)]))


def halves(places: np.ndarray) -> FitItems:
    """Every third is unfit, the others count as their last digit says."""
    fit = places[places % 3 > 0]
    return fit, 1 + fit % 10


@pytest.mark.parametrize("order", ["random", "grouped"])
def test_an_epoch_has_everything_fit_once_within_the_budget(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_order, "POOL", 64)
    epochs = PooledEpochs(1000, halves, 40, order, seed=1)
    for epoch in (0, 1):
        batches = epochs.epoch(epoch)
        assert [list(batch) for batch in batches] == [list(batches[i]) for i in range(len(batches))]
        assert np.array_equal(np.sort(np.concatenate(list(batches))), halves(np.arange(1000))[0])
        assert all(halves(batch)[1].sum() <= 40 for batch in batches)
    first, again = ([list(batch) for batch in epochs.epoch(epoch)] for epoch in (0, 1))
    assert first != again
    fresh = PooledEpochs(1000, halves, 40, order, seed=1).epoch(1)
    assert [list(fresh[i]) for i in (7, 3, len(fresh) - 1)] == [
        again[i] for i in (7, 3, -1)
    ]  # whatever was asked before
    with pytest.raises(IndexError):
        fresh[len(fresh)]


def test_grouped_batches_hold_lengths_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_order, "POOL", 500)

    def spread(order: str) -> float:
        batches = PooledEpochs(5000, halves, 40, order, seed=1).epoch(0)
        return float(np.mean([np.ptp(halves(batch)[1]) for batch in batches]))

    assert spread("grouped") < 1 < 5 < spread("random")


def test_nothing_fit_and_wrong_settings() -> None:
    with pytest.raises(DataError, match="no examples are left"):
        PooledEpochs(10, lambda places: (places[:0], places[:0]), 40, "random", 0).epoch(0)
    with pytest.raises(ConfigError, match="batch_tokens must be at least 1"):
        PooledEpochs(10, halves, 0, "random", 0)


def test_a_sample_is_some_of_them_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_order, "SAMPLE", 10)
    places = computed_order.sample(1000)
    assert len(places) == 10 and np.all(np.diff(places) > 0) and places[-1] > 500
    assert np.array_equal(computed_order.sample(5), np.arange(5))
