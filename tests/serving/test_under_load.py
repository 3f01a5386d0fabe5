"""The same answers under load as alone, flat memory, quick refusals, and places that are free again: minutes.

`python -m pytest -s -m slow tests/serving/test_under_load.py` prints the figures.
"""

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from asked import mixed
from load import Tally, disconnect, load, milliseconds, running
from process import Process, serving
from tiny_runs import Runs

from regard.runs.run import Run

pytestmark = pytest.mark.slow

N_EACH = 24  # requests of each verb
N_ANSWERS, SECONDS, N_CLIENTS = 10_000, 60, 64


@pytest.fixture(scope="module")
def server(folders: Runs, runs: dict[str, Run]) -> Iterator[Process]:
    with serving({task: folders[task] for task in runs}) as process:
        yield process


def test_64_clients_get_what_the_run_says_alone(server: Process, runs: dict[str, Run]) -> None:
    def is_enough(tally: Tally) -> bool:
        return tally.took >= SECONDS and sum(tally.statuses.values()) >= N_ANSWERS

    tally = load(server, mixed(runs, N_EACH), N_CLIENTS, is_enough)
    print(f"\n{N_CLIENTS} clients: {tally}")
    assert set(tally.statuses) == {200} and not tally.wrong
    assert tally.growth <= 1.05
    assert running(server) == (0, 0)


def test_ten_times_overload_is_refused_quickly(folders: Runs, runs: dict[str, Run]) -> None:
    options = ("--set", "running=4", "--set", "waiting=8")
    with serving({task: folders[task] for task in runs}, *options) as process:
        tally = load(process, mixed(runs, 4), 120, lambda tally: tally.took >= 20, pause=0.25)
        inside = float(np.percentile(milliseconds(process, 429), 99))
        print(f"\n120 clients, room for 12: {tally}; refusals within the server: p99 {inside:.0f} ms")
        assert set(tally.statuses) == {200, 429} and not tally.wrong
        assert tally.percentile(429, 0.99) <= 0.25
        assert httpx.get(f"{process.url}/ready").status_code == 200


def test_100_disconnects_free_their_places(server: Process) -> None:
    disconnect(server, 100)
