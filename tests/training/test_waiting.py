"""How long a training waits for its data is measured."""

import time
from types import SimpleNamespace

import pytest

from regard.training.feed import Feed


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.05, 0.5, 1.0), (0.0, 0.0, 0.5)])
def test_waiting_for_slow_batches_is_counted(seconds: float, least: float, most: float) -> None:
    def batch(epoch: int, index: int) -> int:
        time.sleep(seconds)
        return index

    task = SimpleNamespace(batch=batch, n_batches=lambda epoch: 100)
    with Feed(task, (0, 0), lambda batch: batch) as feed:  # type: ignore[arg-type]
        for _ in range(10):
            feed.take(1)
            if not seconds:
                time.sleep(0.01)  # the device works, and batches are made meanwhile
    assert least <= feed.share_waited <= most
