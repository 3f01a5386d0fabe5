"""Several processes train one run: the same weights whatever their number."""

import hashlib
import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import regard
from regard.errors import ConfigError
from regard.learning.distribution import DistributionConfig
from regard.nn.masked_weights import MaskedWeights
from regard.processes import ALONE, LostWorker, Sharing, in_parts, joined, others_noticed, sharing, spread_lines
from regard.runs.checkpoints import find_weights
from regard.runs.weights import read_tensors
from regard.training.exact import PairedSums
from regard.training.feed import Feed, walk
from regard.training.metrics import read_metrics
from regard.training.team import Team
from tests.together import in_processes

WORDS = tuple("abcdefgh")
RECURRENT = {"d_model": 12, "d_hidden": 12, "recurrent_dropout": 0.2, "embedding_dropout": 0.1}
BLOCKS = {"d_model": 12, "n_heads": 2, "n_layers": 2, "d_ff": 24, "max_length": 64}
MODELS = {
    "recurrent, carried": ("recurrent", {"n_layers": 2, **RECURRENT}, {"carry": "true"}),
    "stack": ("stack", BLOCKS, {}),
}


def write_recipe(folder: Path, name: str, **distribution: Any) -> Path:
    draws = random.Random(0)
    lines = [" ".join(draws.choices(WORDS, k=draws.randint(3, 12))) + "." for _ in range(120)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    architecture, model, task = MODELS[name]
    tables: dict[str, dict[str, Any]] = {
        "task": {"kind": '"language"', "unit": '"text"', "window": 8, "shown": 0, **task},
        "data": {"root": f'"{folder}"', "train": '["text.txt"]', "valid_share": 0.1, "batch_tokens": 64},
        "tokenizer": {"kind": '"characters"'},
        "model": {"architecture": f'"{architecture}"', "dropout": 0.2, **model},
        "training": {"steps": 6, "schedule": '"constant"', "learning_rate": 0.01, "warmup": 1, "log_every": 1},
        "distribution": distribution,
    }
    tables["data"]["max_length"] = 32
    tables["training"] |= {"validate_every": 3, "save_every": 2}
    text = "".join(
        f"[{table}]\n" + "".join(f"{key} = {value}\n" for key, value in rows.items()) for table, rows in tables.items()
    )
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return path


EXACT = {"kind": '"data"', "shards": 4, "exact": "true"}


def train(n: int, recipe: Path, run: Path, *more: str) -> str:
    return in_processes(n, run.parent, "train", str(recipe), "--run", str(run), "--device", "cpu", *more)


def weights(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def losses(run: Path, *kinds: str) -> list[float]:
    return [row["loss"] for row in read_metrics(run / "metrics.jsonl") if row["kind"] in kinds]


@pytest.mark.slow  # seven processes that each import PyTorch
def test_one_process_or_four_and_then_two_have_the_same_weights(tmp_path: Path) -> None:
    """States that are carried, dropout, masks of weights and validation are those of the virtual shards."""
    recipe = write_recipe(tmp_path, "recurrent, carried", **EXACT)
    said = train(1, recipe, tmp_path / "whole")
    assert "sums in a fixed order took" in said
    train(1, recipe, tmp_path / "run", "--set", "training.steps=2")
    train(4, tmp_path / "run", tmp_path / "run", "--resume", "--set", "training.steps=4")
    said = train(2, tmp_path / "run", tmp_path / "run", "--resume", "--set", "training.steps=6")
    assert "2 processes, 4 virtual shards" in said
    assert "a plain all-reduce of as many numbers takes" in said
    assert losses(tmp_path / "run", "train") == losses(tmp_path / "whole", "train")
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("settings", [(), ("training.accumulate=2", "training.ema=0.9", "training.clip=0.1")])
def test_exact_weights_do_not_depend_on_the_processes(tmp_path: Path, name: str, settings: tuple[str, ...]) -> None:
    recipe = write_recipe(tmp_path, name, **EXACT)
    changes = [part for setting in settings for part in ("--set", setting)]
    for n in (1, 2, 4):
        train(n, recipe, tmp_path / str(n), *changes)
    assert weights(tmp_path / "1") == weights(tmp_path / "2") == weights(tmp_path / "4")
    other = [*changes, "--set", "training.seed=1"]
    train(2, recipe, tmp_path / "other", *other)
    assert weights(tmp_path / "other") != weights(tmp_path / "1")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_without_exactness_losses_agree(tmp_path: Path, name: str) -> None:
    recipe = write_recipe(tmp_path, name, kind='"data"', shards=4)
    for n in (1, 2, 4):
        train(n, recipe, tmp_path / str(n))
    alone = losses(tmp_path / "1", "train", "valid")
    assert len(alone) == 8
    for n in (2, 4):
        assert losses(tmp_path / str(n), "train", "valid") == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
def test_divided_weights_learn_the_same(tmp_path: Path) -> None:
    """Also where activations are computed again, and on another number of processes, or undivided, after a resume."""
    recipe = write_recipe(tmp_path, "stack", kind='"sharded"', shards=4)
    smoothed = ("--set", "training.ema=0.9")
    train(1, recipe, tmp_path / "1", *smoothed)
    for n in (2, 4):
        train(n, recipe, tmp_path / str(n), *smoothed, "--set", f"training.checkpointing={str(n == 4).lower()}")
    run = tmp_path / "run"
    train(2, recipe, run, *smoothed, "--set", "training.steps=2")
    train(4, run, run, "--resume", "--set", "training.steps=4")
    train(2, run, run, "--resume", "--set", "training.steps=6", "--set", "distribution.kind=data")
    alone = losses(tmp_path / "1", "train")
    for other in ("2", "4", "run"):
        assert losses(tmp_path / other, "train") == pytest.approx(alone, abs=1e-5)
    whole, divided = (read_tensors(tmp_path / name / "model.safetensors") for name in ("1", "4"))
    assert {name: tensor.shape for name, tensor in whole.items()} == {n: t.shape for n, t in divided.items()}
    check_shards(tmp_path / "4", n=4)


def check_shards(run: Path, n: int) -> None:
    """safetensors alone puts the files of a checkpoint together, by their index, and so does `regard.load`."""
    checkpoint = run / "checkpoints/step-6"
    listed = json.loads((checkpoint / "model.safetensors.index.json").read_text(encoding="utf-8"))["weight_map"]
    assert set(listed.values()) == {f"model-{i:05d}-of-{n:05d}.safetensors" for i in range(1, n + 1)}
    assert not (checkpoint / "model.safetensors").exists()
    alone = {}
    for name, file in listed.items():
        with safe_open(checkpoint / file, framework="pt") as tensors:
            alone[name] = tensors.get_tensor(name)
    finished = read_tensors(run / "model.safetensors")
    (run / "model.safetensors").unlink()  # as if it were not finished: the newest or best checkpoint is taken
    path, _ = find_weights(run)
    assert path == run / f"checkpoints/{path.parent.name}/ema.safetensors.index.json"
    loaded = regard.load(run, "cpu")
    assert {name: t.shape for name, t in alone.items()} == {name: t.shape for name, t in finished.items()}
    for name, tensor in read_tensors(path).items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    for name, tensor in read_tensors(checkpoint / "model.safetensors.index.json").items():
        assert torch.equal(alone[name], tensor)


@pytest.mark.slow
def test_nothing_else_to_set(tmp_path: Path) -> None:
    """A recipe without the table: each batch is shared, and the settled settings are in the run."""
    recipe = write_recipe(tmp_path, "stack")
    said = train(2, recipe, tmp_path / "run")
    assert "data: 2 processes, 2 virtual shards" in said
    settled = (tmp_path / "run/recipe.toml").read_text(encoding="utf-8")
    assert 'kind = "data"\nshards = 2\n' in settled
    steps = [row for row in read_metrics(tmp_path / "run/metrics.jsonl") if row["kind"] == "train"]
    n_tokens = [row["n_tokens"] for row in steps]
    assert max(n_tokens) == 64, "a batch is as large as in one process"
    assert all(n > 64 - 8 for n in n_tokens), "but for the last window of the text, which may be short"


@pytest.mark.parametrize(
    "message",
    [
        "[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation to complete",
        "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:41234",
        "NCCL communicator was aborted on rank 1.",
    ],
)
def test_a_lost_or_hanging_worker_is_named_with_what_to_do(message: str) -> None:
    with (
        pytest.raises(LostWorker, match=r"has ended or does not answer; what was saved is whole. `torchrun --max-rest"),
        others_noticed(),
    ):
        raise RuntimeError(message)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), others_noticed():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_lines_are_spread_and_put_together_in_their_order() -> None:
    """What is computed together depends on the number of parts; each output comes back to its line."""
    seen: list[list[int]] = []

    def compute(own: list[int]) -> list[tuple[int, str]]:
        seen.append(own)
        return [(10 * number, f"{number}") for number in own]

    whole = spread_lines(range(7), compute)
    with sharing(Sharing(ALONE, 4)):
        assert spread_lines(range(7), compute) == whole == [(10 * number, f"{number}") for number in range(7)]
    assert seen == [[0, 1, 2, 3, 4, 5, 6], [0, 4], [1, 5], [2, 6], [3]]


def test_runs_are_as_many_as_parts() -> None:
    assert in_parts(7) == [(0, 7)] and in_parts(0) == []
    with sharing(Sharing(ALONE, 4)):
        assert in_parts(7) == [(0, 1), (1, 3), (3, 5), (5, 7)]
        assert in_parts(2) == [(0, 1), (1, 2)]  # no part is empty


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(ConfigError, match="shards must be a power of two, got 6"):
        DistributionConfig(kind="data", shards=6)
    with pytest.raises(ConfigError, match='exact = true needs kind = "data", got kind = "none"'):
        DistributionConfig(exact=True, shards=2)
    with pytest.raises(ConfigError, match="exact = true needs shards"):
        DistributionConfig(kind="data", exact=True)
    with pytest.raises(ConfigError, match="must be a power of two, got 3"):
        DistributionConfig().for_processes(3)
    with pytest.raises(ConfigError, match=r"8 processes cannot share distribution.shards = 4: start at most 4"):
        DistributionConfig(kind="data", shards=4).for_processes(8)
    assert DistributionConfig().for_processes(1) == DistributionConfig()
    assert DistributionConfig().for_processes(4) == DistributionConfig(kind="data", shards=4)


def test_a_tree_adds_in_pairs_whoever_adds() -> None:
    """In float32 the order can be seen: (1e8 + 1) + (-1e8 + 1) is 0, and one after the other 1."""
    rows = [torch.tensor([number], dtype=torch.float32) for number in (1e8, 1.0, -1e8, 1.0)]
    whole, halves = PairedSums(), [PairedSums(), PairedSums()]
    for i, row in enumerate(rows):
        whole.add(row)
        halves[i // 2].add(row)
    assert float(whole.root()) == 0.0 == float(halves[0].root() + halves[1].root())
    assert float(sum(rows)) == 1.0


class Counting:
    """A task whose batches are their places."""

    def n_batches(self, epoch: int) -> int:
        return 5

    def batch(self, epoch: int, index: int) -> tuple[int, int]:
        return epoch, index


def places_of(shards: range) -> Iterator[list[tuple[int, int]]]:
    with Feed(Counting(), (0, 2), lambda batch: batch, lambda: True, shards, 4) as feed:  # type: ignore[type-var, arg-type]
        while True:
            batches, places = feed.take(2)
            assert batches == places
            yield places


def test_the_processes_read_every_place_once() -> None:
    for shards in ([range(0, 2), range(2, 4)], [range(i, i + 1) for i in range(4)]):
        taken = [list(islice(places_of(own), 3)) for own in shards]
        for step in range(3):
            together = sorted(place for own in taken for place in own[step])
            assert together == list(islice(walk(Counting(), (0, 2)), 8 * step, 8 * step + 8))  # type: ignore[type-var, arg-type]


def test_masks_of_weights_depend_on_their_seed_alone() -> None:
    masked, weights = MaskedWeights(), torch.ones(1000)
    masked.mask_seed = 5
    torch.manual_seed(0)
    first = masked.without_some(weights, 0.25)
    torch.manual_seed(1)
    assert torch.equal(masked.without_some(weights, 0.25), first)
    assert sorted(set(first.tolist())) == pytest.approx([0.0, 4 / 3])
    assert 700 < int(first.count_nonzero()) < 800
    masked.mask_seed = 6
    assert not torch.equal(masked.without_some(weights, 0.25), first)


def test_shards_of_processes_lie_side_by_side() -> None:
    config = DistributionConfig(kind="data", shards=8)
    teams = [Team(type(ALONE)(rank, 4), config) for rank in range(4)]
    assert [list(team.shards) for team in teams] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert json.dumps(list(Team().shards)) == "[0]"


def test_a_rank_that_another_program_set_is_nobody_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with joined(torch.device("cpu"), 1.0) as processes:
        assert processes is ALONE
