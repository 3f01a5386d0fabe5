"""Every architecture with every task in two processes: exactly the weights of one process; sharded, nearly the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from every_pair import BLOCKS, PAIRS, Pair, covering, write_recipe

from regard.runs.weights import read_tensors
from regard.tasks.table import TASKS
from tests.together import in_processes

LEARNED = [
    pair for pair in PAIRS if not (pair.rows[1].cannot_learn or pair.is_counted or TASKS[pair.task].needs_weights)
]
SETTINGS = ("training.steps=3", "training.validate_every=3", "training.save_every=3", "distribution.shards=2")


def train(n: int, pair: Pair, folder: Path, *settings: str, begin: Path | None = None) -> dict[str, torch.Tensor]:
    folder.mkdir()
    recipe = write_recipe(pair, folder, CAUSAL if begin else None)
    changes = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    changes += ["--from", str(begin)] if begin else []
    in_processes(n, folder, "train", str(recipe), "--run", str(folder / "run"), "--device", "cpu", *changes)
    return read_tensors(folder / "run/model.safetensors")


def agree(
    pair: Pair, folder: Path, same: Callable[[torch.Tensor, torch.Tensor], bool], *settings: str, free: str = "(none)"
) -> None:
    alone, together = (train(n, pair, folder / str(n), *settings) for n in (1, 2))
    assert alone.keys() == together.keys()
    assert not [name for name in alone if not same(alone[name], together[name]) and not name.endswith(free)]


# A bias of keys adds the same to all scores of a query, which softmax does not see: its gradient is what rounding
# leaves, and Adam makes steps of it.
SHIFTS = "to_keys.bias"


@pytest.mark.slow  # three processes for each pair
@pytest.mark.parametrize("pair", covering(LEARNED), ids=str)
def test_two_processes_learn_exactly_what_one_learns(pair: Pair, tmp_path: Path) -> None:
    agree(pair, tmp_path, torch.equal, "distribution.kind=data", "distribution.exact=true")


CAUSAL = {**BLOCKS, "causal": True}  # what writes, and what judges it


@pytest.mark.slow
@pytest.mark.parametrize("task", ["preference", "policy"])
def test_what_begins_with_another_run_learns_exactly_what_one_process_learns(task: str, tmp_path: Path) -> None:
    exact = ("distribution.kind=data", "distribution.exact=true")
    train(1, Pair("stack", "chat"), tmp_path / "chat", *exact)
    begin, settings = tmp_path / "chat/run", list(exact)
    if task == "policy":
        train(1, Pair("stack", "reward"), tmp_path / "reward", *exact, begin=begin)
        settings += [f"task.judge={tmp_path / 'reward/run'}", "task.copies=2", "task.sample_length=4"]
    alone, together = (train(n, Pair("stack", task), tmp_path / str(n), *settings, begin=begin) for n in (1, 2))
    before = read_tensors(begin / "model.safetensors")
    assert all(torch.equal(alone[name], together[name]) for name in alone)
    assert any(not torch.equal(alone[name], before[name]) for name in alone)


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one.float(), other.float(), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("pair", covering(LEARNED), ids=str)
def test_two_processes_with_copies_of_the_weights_learn_what_one_learns(pair: Pair, tmp_path: Path) -> None:
    agree(pair, tmp_path, near, "distribution.kind=data", free=SHIFTS)


RECURRENT = {"recurrent", "attentive", "seq2seq", "bilm", "elmo", "image-seq2seq", "recurrent-series"}  # refused


@pytest.mark.slow
@pytest.mark.parametrize("pair", covering([pair for pair in LEARNED if pair.architecture not in RECURRENT]), ids=str)
def test_two_processes_that_divide_the_weights_learn_what_one_learns(pair: Pair, tmp_path: Path) -> None:
    agree(pair, tmp_path, near, "distribution.kind=sharded", free=SHIFTS)


TIMED = ("per_second", "seconds")  # figures of the clock


def evaluated(n: int, run: Path) -> dict[str, object]:
    said = in_processes(n, run.parent, "evaluate", str(run), "--json", "--device", "cpu")
    record: dict[str, object] = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return record


@pytest.mark.slow
@pytest.mark.parametrize("pair", covering(LEARNED), ids=str)
def test_two_processes_evaluate_as_one(pair: Pair, tmp_path: Path) -> None:
    train(1, pair, tmp_path / "1", "distribution.shards=0")
    alone, together = (evaluated(n, tmp_path / "1/run") for n in (1, 2))
    assert alone and rounded(together) == rounded(alone)


def rounded(value: object) -> object:
    """Figures to six digits: sums of other batches differ in the last ones."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items() if not name.endswith(TIMED)}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
