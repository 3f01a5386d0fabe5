"""Real `torchrun`: workers are killed at random moments, all start again, and nothing is lost or repeated."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from logged_worker import write_down
from test_together import EXACT, write_recipe

from regard.runs.recipe import Recipe
from regard.training.feed import walk
from regard.training.prepare import prepare
from tests.together import exit_codes, in_processes, said_by, start_processes

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1]), "GLOO_SOCKET_IFNAME": "lo"}


def started(n: int, log: Path, recipe: Path, run: Path, restarts: int, *more: str) -> subprocess.Popen[bytes]:
    log.mkdir(exist_ok=True)
    agent = ["-m", "torch.distributed.run", "--nproc-per-node", str(n), "--max-restarts", str(restarts)]
    agent += ["--monitor-interval", "0.1", "--local-addr", "127.0.0.1"]
    worker = [
        str(HERE / "logged_worker.py"),
        str(log),
        "train",
        str(recipe),
        f"--folder={run}",
        "--device",
        "cpu",
        *more,
    ]
    with open(log / "said.txt", "wb") as said:
        return subprocess.Popen(
            [sys.executable, *agent, "--standalone", *worker], env=ENVIRONMENT, stdout=said, stderr=said
        )


def weights(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def n_rows(log: Path, process: str | int) -> int:
    """Steps that a process has begun."""
    return sum(path.read_bytes().count(b"\n") for path in log.glob(f"*-{process}.jsonl"))


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def learned(log: Path) -> dict[int, list[list[int]]]:
    """Of each step, the places of all processes, as it was done last: a step after the last checkpoint is done anew."""
    rows: dict[int, dict[str, tuple[float, list[list[int]]]]] = {}
    for path in log.glob("*.jsonl"):
        rank = path.name.partition("-")[0]
        for line in path.read_text(encoding="utf-8").splitlines():
            when, step, places, _ = json.loads(line)
            newest = rows.setdefault(step, {})
            newest[rank] = max(newest.get(rank, (0.0, [])), (when, places))
    return {step: sorted(place for _, places in by_rank.values() for place in places) for step, by_rank in rows.items()}


SETTINGS = ("training.steps=130", "training.validate_every=25", "training.save_every=3")
CHANGES = [part for setting in SETTINGS for part in ("--set", setting)]


def check_samples(folder: Path) -> None:
    """Of every step that counts, the processes together learned from the next places, each once."""
    task = prepare(Recipe.read(str(folder / "run")), folder / "again").task
    places = [list(place) for place in islice(walk(task, (0, 0)), 130 * 4)]
    assert learned(folder / "log") == {step: places[4 * step - 4 : 4 * step] for step in range(1, 131)}


@pytest.mark.slow  # some seconds for each life
@pytest.mark.parametrize(("n", "n_kills"), [(2, 20), (4, 10)])
def test_killed_workers_lose_and_repeat_nothing(tmp_path: Path, n: int, n_kills: int) -> None:
    """While the data are read or after some steps: the others notice at their next exchange, and all begin again."""
    recipe = write_recipe(tmp_path, "recurrent, carried", **EXACT)
    in_processes(1, tmp_path, "train", str(recipe), "--run", str(tmp_path / "whole"), "--device", "cpu", *CHANGES)
    log, draws = tmp_path / "log", random.Random(n)
    log.mkdir()
    arguments = ("train", str(recipe), "--run", str(tmp_path / "run"), "--device", "cpu", *CHANGES)
    n_learning = 0
    for _ in range(n_kills):
        children = start_processes(n, tmp_path, arguments, job="test", first=partial(write_down, log))
        victim, after = draws.choice(children), draws.randint(0, 5)
        wait_for(lambda victim=victim, after=after: n_rows(log, victim) >= after, 120)  # type: ignore[misc]
        time.sleep(draws.uniform(0, 0.3))
        n_learning += n_rows(log, victim) > 0
        os.kill(victim, signal.SIGKILL)
        for child in set(children) - {victim}:
            os.kill(child, signal.SIGTERM)  # as torchrun does; one that has not met the others yet ends by this alone
        codes = exit_codes(children)
        assert codes.pop(children.index(victim)) == -signal.SIGKILL
        assert set(codes) <= {1, 143, -signal.SIGTERM}
    assert n_learning > n_kills / 2
    codes = exit_codes(start_processes(n, tmp_path, arguments, job="test", first=partial(write_down, log)))
    assert codes == [0] * n, said_by(tmp_path, 0).read_text(encoding="utf-8")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    check_samples(tmp_path)


def workers(agent: subprocess.Popen[bytes]) -> set[int]:
    """The processes that the agent has started and not yet given up."""
    listed = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text(encoding="utf-8").split()
    return {int(child) for child in listed if b"logged_worker" in command_line(child)}


def command_line(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def n_begun(log: Path, process: int) -> int:
    """Steps; -1: it still imports, or reads its data."""
    return n_rows(log, process) if any(log.glob(f"*-{process}.jsonl")) else -1


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recipe, and the run that nobody disturbed, in one process."""
    folder = tmp_path_factory.mktemp("unbroken")
    recipe = write_recipe(folder, "recurrent, carried", **EXACT)
    in_processes(1, folder, "train", str(recipe), "--run", str(folder / "whole"), "--device", "cpu", *CHANGES)
    return recipe, folder / "whole"


@pytest.mark.slow  # every start imports PyTorch in all workers: some minutes
def test_the_agent_of_torchrun_starts_all_again_after_twenty_kills(tmp_path: Path, unbroken: tuple[Path, Path]) -> None:
    """Random workers at random moments, from their first imports on; the agent alone restarts them."""
    recipe, whole = unbroken
    log, draws, n_learning = tmp_path / "log", random.Random(22), 0
    agent = started(2, log, recipe, tmp_path / "run", 20, *CHANGES)
    known: set[int] = set()
    try:
        for _ in range(20):
            wait_for(lambda known=known: len(workers(agent) - known) == 2, 120)  # type: ignore[misc]
            living = workers(agent) - known
            assert len(living) == 2, (log / "said.txt").read_text()[-4000:]
            known |= living
            victim, after = draws.choice(sorted(living)), draws.choice([-1, 0, 1, 2, 3, 4, 5, 6])
            wait_for(lambda v=victim, after=after: n_begun(log, v) >= after, 120)  # type: ignore[misc]
            time.sleep(draws.uniform(0, 1.0 if after < 0 else 0.3))
            n_learning += n_begun(log, victim) > 0
            os.kill(victim, signal.SIGKILL)
        code = agent.wait(timeout=300)
    finally:
        agent.kill()
        agent.wait()
    assert code == 0, (log / "said.txt").read_text()[-4000:]
    assert n_learning >= 10
    assert weights(tmp_path / "run") == weights(whole)
    check_samples(tmp_path)


TIMEOUT = 5.0  # seconds
GRACE = 30.0  # seconds that the agent gives a worker to end by itself, before it kills it
STARTING = 30.0  # seconds


@pytest.mark.slow  # the agent waits half a minute before it kills a worker that does not end
def test_a_worker_that_hangs_is_noticed_in_the_stated_time(tmp_path: Path, unbroken: tuple[Path, Path]) -> None:
    recipe, whole = unbroken
    log = tmp_path / "log"
    agent = started(2, log, recipe, tmp_path / "run", 1, *CHANGES, "--set", f"distribution.timeout={TIMEOUT}")
    try:
        wait_for(lambda: sum(n_begun(log, worker) > 4 for worker in workers(agent)) == 2, 120)
        first = workers(agent)
        hanging = int((log / "1.process").read_text(encoding="utf-8"))
        os.kill(hanging, signal.SIGSTOP)
        begun = time.monotonic()
        said = log / "said.txt"
        wait_for(lambda: b"does not answer" in said.read_bytes(), 60)
        noticed = time.monotonic() - begun
        wait_for(lambda: len(workers(agent) - first) == 2, 120)
        restarted = time.monotonic() - begun
        code = agent.wait(timeout=120)
    finally:
        agent.kill()
        agent.wait()
    assert code == 0, said.read_text()[-4000:]
    assert TIMEOUT - 1 < noticed < TIMEOUT + 5
    assert restarted < TIMEOUT + GRACE + STARTING
    print(f"noticed after {noticed:.1f} s, started again after {restarted:.1f} s")
    assert weights(tmp_path / "run") == weights(whole)
    check_samples(tmp_path)
