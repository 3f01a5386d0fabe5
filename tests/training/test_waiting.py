"""How long a training waits for its data is measured."""

import time
from types import SimpleNamespace

import pytest

from regard.training.feed import Feed


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(
    ("seconds", "is_idle", "least", "most"),
    [(0.05, True, 0.5, 1.0), (0.0, True, 0.0, 0.5), (0.05, False, 0.0, 0.0)],
)
def test_waiting_for_slow_batches_is_counted(seconds: float, is_idle: bool, least: float, most: float) -> None:
    """Not while the device has still something to do."""

    def batch(epoch: int, index: int) -> int:
        time.sleep(seconds)
        return index

    task = SimpleNamespace(batch=batch, n_batches=lambda epoch: 100)
    with Feed(task, (0, 0), lambda batch: batch, lambda: is_idle) as feed:  # type: ignore[arg-type]
        for _ in range(10):
            feed.take(1)
            if not seconds:
                time.sleep(0.01)  # the device works, and batches are made meanwhile
    assert least <= feed.share_waited <= most
