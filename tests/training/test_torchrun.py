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
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1])}


def started(n: int, log: Path, recipe: Path, run: Path, restarts: int, *more: str) -> subprocess.Popen[bytes]:
    log.mkdir(exist_ok=True)
    agent = ["-m", "torch.distributed.run", "--nproc-per-node", str(n), "--max-restarts", str(restarts)]
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


@pytest.mark.slow  # every start imports PyTorch in all workers
def test_torchrun_starts_all_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "recurrent, carried", **EXACT)
    in_processes(1, tmp_path, "train", str(recipe), "--run", str(tmp_path / "whole"), "--device", "cpu", *CHANGES)
    log = tmp_path / "log"
    agent = started(2, log, recipe, tmp_path / "run", 3, *CHANGES)
    killed: set[str] = set()
    try:
        for rank in (1, 0):
            file = log / f"{rank}.process"

            def is_learning(file: Path = file) -> bool:
                process = file.read_text(encoding="utf-8") if file.is_file() else ""
                return bool(process) and process not in killed and n_rows(log, process) > 4

            wait_for(is_learning, 600)
            killed.update(path.read_text(encoding="utf-8") for path in log.glob("*.process"))
            os.kill(int(file.read_text(encoding="utf-8")), signal.SIGKILL)
        code = agent.wait(timeout=900)
    finally:
        agent.kill()
        agent.wait()
    assert code == 0, (log / "said.txt").read_text()[-4000:]
    assert len(list(log.glob("0-*.jsonl"))) == 3
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    check_samples(tmp_path)
