"""Every architecture with every task in two processes: exactly the weights of one process; sharded, nearly the same."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from every_pair import PAIRS, Pair, covering, write_recipe

from regard.runs.weights import read_tensors
from regard.tasks.table import TASKS
from tests.together import in_processes

LEARNED = [
    pair for pair in PAIRS if not (pair.rows[1].cannot_learn or pair.is_counted or TASKS[pair.task].needs_weights)
]
SETTINGS = ("training.steps=3", "training.validate_every=3", "training.save_every=3", "distribution.shards=2")


def train(n: int, pair: Pair, folder: Path, *settings: str) -> dict[str, torch.Tensor]:
    folder.mkdir()
    recipe = write_recipe(pair, folder)
    changes = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    in_processes(n, folder, "train", str(recipe), "--run", str(folder / "run"), "--device", "cpu", *changes)
    return read_tensors(folder / "run/model.safetensors")


def agree(pair: Pair, folder: Path, same: Callable[[torch.Tensor, torch.Tensor], bool], *settings: str) -> None:
    alone, together = (train(n, pair, folder / str(n), *settings) for n in (1, 2))
    assert alone.keys() == together.keys()
    assert all(same(alone[name], together[name]) for name in alone)


@pytest.mark.slow  # three processes for each pair
@pytest.mark.parametrize("pair", covering(LEARNED), ids=str)
def test_two_processes_learn_exactly_what_one_learns(pair: Pair, tmp_path: Path) -> None:
    agree(pair, tmp_path, torch.equal, "distribution.kind=data", "distribution.exact=true")


RECURRENT = {"recurrent", "attentive", "seq2seq", "bilm", "elmo", "image-seq2seq", "recurrent-series"}  # refused


@pytest.mark.slow
@pytest.mark.parametrize("pair", covering([pair for pair in LEARNED if pair.architecture not in RECURRENT]), ids=str)
def test_two_processes_that_divide_the_weights_learn_what_one_learns(pair: Pair, tmp_path: Path) -> None:
    def near(one: torch.Tensor, other: torch.Tensor) -> bool:
        return torch.allclose(one.float(), other.float(), atol=1e-4)

    agree(pair, tmp_path, near, "distribution.kind=sharded")
