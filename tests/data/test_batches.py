import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build
from regard.data.batching.packing import ORDERS, Packing, shuffled
from regard.data.config import DataConfig
from regard.errors import ConfigError, DataError

LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=300).map(np.array)


@pytest.mark.sampled("the cases differ in their file alone")
@pytest.mark.parametrize("order", ORDERS)
@given(lengths=LENGTHS, budget=st.integers(1, 100), seed=st.integers(0, 2**40), epoch=st.integers(0, 5))
def test_every_example_once_within_the_budget(
    order: str, lengths: np.ndarray, budget: int, seed: int, epoch: int
) -> None:
    batches = Packing(lengths, budget, order, seed).epoch(epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert all(lengths[batch].sum() <= budget or len(batch) == 1 for batch in batches)


@pytest.mark.parametrize("order", ORDERS)
def test_batches_are_as_full_as_they_can_be(order: str) -> None:
    batches = Packing(np.full(12, 5), 20, order, seed=0).epoch(0)
    assert [len(batch) for batch in batches] == [4, 4, 4]


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_depends_on_seed_and_epoch_only(order: str) -> None:
    lengths = np.arange(1, 500) % 37

    def orders(seed: int, epoch: int, before: int) -> list[int]:
        packing = Packing(lengths, 200, order, seed)
        packing.epoch(before)
        return np.concatenate(packing.epoch(epoch)).tolist()

    assert orders(1, 3, before=0) == orders(1, 3, before=7)
    assert len({tuple(orders(seed, epoch, 0)) for seed in range(3) for epoch in range(3)}) == 9


class Raced(Packing):
    """Whenever somebody has looked at the latest epoch, another thread has asked for the one after it."""

    @property
    def latest(self) -> tuple[int, list[np.ndarray]]:
        found = self.kept
        self.kept = (found[0] + 1, self.order(self.lengths, self.budget, self.seed, found[0] + 1))
        return found

    @latest.setter
    def latest(self, plan: tuple[int, list[np.ndarray]]) -> None:
        self.kept = plan


@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_is_the_one_asked_for_whatever_another_thread_does(order: str) -> None:
    lengths = np.arange(1, 60)
    packing, raced = (kind(lengths, 100, order, seed=3) for kind in (Packing, Raced))
    for epoch in (0, 0, 1, 1, 2, 1):
        assert [part.tolist() for part in raced.epoch(epoch)] == [part.tolist() for part in packing.epoch(epoch)]


def test_grouped_batches_hold_equal_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 20_000)

    def padding(order: str) -> float:
        batches = Packing(lengths, 2000, order, seed=0).epoch(0)
        return 1 - lengths.sum() / sum(lengths[batch].max() * len(batch) for batch in batches)

    assert padding("grouped") < 0.1 < 0.4 < padding("random")


def test_grouped_batches_do_not_come_shortest_first() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 20_000)
    means = [lengths[batch].mean() for batch in Packing(lengths, 2000, "grouped", seed=0).epoch(0)]
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.2


def test_shuffling_is_the_same_everywhere() -> None:
    """A change here would break the resuming of every run that exists."""
    assert shuffled(8, seed=1, epoch=2).tolist() == [5, 6, 3, 2, 1, 0, 4, 7]


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="no examples"):
        Packing(np.array([], int), 10, "random", 0)
    with pytest.raises(ConfigError, match="random"):
        Packing(np.array([1]), 10, "sorted", 0)
    with pytest.raises(ConfigError, match="batch_tokens"):
        Packing(np.array([1]), 0, "random", 0)
    with pytest.raises(ConfigError, match=r"\[data\] order must be one of grouped, random"):
        build(DataConfig, {"order": "sorted"}, "data")
    with pytest.raises(ConfigError, match=r"\[data\] max_length must be at least 1"):
        build(DataConfig, {"max_length": 0}, "data")
    assert build(DataConfig, {"train": ["a", "b"]}, "data").train == ("a", "b")
