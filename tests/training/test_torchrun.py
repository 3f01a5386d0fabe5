"""Real `torchrun`: workers are killed at random moments, all start again, and nothing is lost or repeated."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
from test_together import EXACT, write_recipe

from regard.runs.recipe import Recipe
from regard.training.feed import walk
from regard.training.prepare import prepare

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


def kill_workers(agent: subprocess.Popen[bytes], log: Path, n: int, n_kills: int) -> int:
    """Kill a random one at a random moment after all have begun to learn; returns how many were killed."""
    draws, n_killed = random.Random(1), 0
    seen: set[str] = set()
    while agent.poll() is None and n_killed < n_kills:
        processes = [path.read_text(encoding="utf-8") for path in log.glob("*.process")]
        alive = [process for process in processes if process and process not in seen]
        if len(alive) < n or any(not list(log.glob(f"*-{process}.jsonl")) for process in alive):
            time.sleep(0.05)
            continue
        time.sleep(draws.uniform(0, 3))  # while it reads the data, learns, validates or saves
        try:
            os.kill(int(draws.choice(alive)), signal.SIGKILL)
        except ProcessLookupError:
            break
        n_killed += 1
        seen |= set(alive)
    return n_killed


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


@pytest.mark.slow  # every start imports PyTorch in all workers
@pytest.mark.parametrize(("n", "n_kills"), [(2, 20), (4, 5)])
def test_killed_workers_lose_and_repeat_nothing(tmp_path: Path, n: int, n_kills: int) -> None:
    recipe = write_recipe(tmp_path, "recurrent, carried", **EXACT)
    settings = ("--set", "training.steps=200", "--set", "training.validate_every=50", "--set", "training.save_every=3")
    whole = started(n, tmp_path / "log-whole", recipe, tmp_path / "whole", 0, *settings)
    assert whole.wait(timeout=900) == 0, (tmp_path / "log-whole/said.txt").read_text()
    agent = started(n, tmp_path / "log", recipe, tmp_path / "run", 2 * n_kills, *settings)
    try:
        n_killed = kill_workers(agent, tmp_path / "log", n, n_kills)
        code = agent.wait(timeout=1800)
    finally:
        agent.kill()
    assert code == 0, (tmp_path / "log/said.txt").read_text()[-4000:]
    assert n_killed == n_kills
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    task = prepare(Recipe.read(str(tmp_path / "run")), tmp_path / "again").task
    places = [list(place) for place in islice(walk(task, (0, 0)), 200 * 4)]
    assert learned(tmp_path / "log") == {step: places[4 * step - 4 : 4 * step] for step in range(1, 201)}
