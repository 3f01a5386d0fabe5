"""`data.batch_tokens = "auto"`: the largest batches that fit."""

from pathlib import Path

import pytest
import torch

import regard
from regard.errors import ConfigError
from regard.memory import TooLarge
from regard.runs.recipe import Recipe
from regard.training import budget
from regard.training.budget import FEWEST, ON_CPU, largest
from regard.training.prepare import prepare

OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize("per_token", [7, 1000, 12_345])
@pytest.mark.parametrize("room", [2**24, 2**27 + 12_345])
def test_the_largest_that_fits_is_found(per_token: int, room: int) -> None:
    tried = []

    def measure(n: int) -> int:
        tried.append(n)
        if per_token * n > 1.2 * room:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return per_token * n

    found, taken = largest(measure, room, most=2**30)
    assert taken == per_token * found <= room < per_token * (found + FEWEST)
    assert len(tried) <= 20


def test_it_is_bounded_and_a_model_that_is_too_large_is_refused() -> None:
    assert largest(lambda n: n, 10**9, most=3000) == (3000, 3000)

    def nothing_fits(n: int) -> int:
        raise torch.OutOfMemoryError(OUT_OF_MEMORY)

    with pytest.raises(TooLarge, match=r"256 tokens does not fit .* training.checkpointing = true"):
        largest(nothing_fits, 10**9, most=3000)


def test_memory_that_grows_faster_than_tokens_is_found_by_trial() -> None:
    found, taken = largest(lambda n: n * n, 10**7, most=10**6)
    assert taken <= 10**7 < (2 * found) ** 2


def test_other_errors_are_not_hidden() -> None:
    def broken(n: int) -> int:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        largest(broken, 10**9, most=3000)


def recipe_of(folder: Path, n_lines: int, **more: object) -> Recipe:
    text = "".join(f"line {n} of a text that is long enough to be learned\n" for n in range(n_lines))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return Recipe.of(
        "small",
        {
            "task": {"kind": "language", "window": 32},
            "data": {"root": str(folder), "train": ["text.txt"], "max_length": 31, "batch_tokens": "auto"},
            "tokenizer": {"kind": "characters", "vocab_size": 40},
            "model": {
                "architecture": "stack", "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 16, "max_length": 32
            },
            "training": {"steps": 2, "validate_every": 0, "warmup": 1},
            **more,
        },
    )  # fmt: skip


def test_on_a_cpu_it_is_a_bound_that_is_said_and_kept(tmp_path: Path) -> None:
    prepared = prepare(recipe_of(tmp_path, 3000), tmp_path / "run")
    assert prepared.task.batch_tokens == prepared.recipe.data.batch_tokens == ON_CPU
    assert ("batches, auto", "4,096 tokens, the bound for a CPU") in prepared.about.rows
    assert Recipe.of_run(tmp_path / "run").data.batch_tokens == ON_CPU


def test_little_text_has_smaller_batches(tmp_path: Path) -> None:
    prepared = prepare(recipe_of(tmp_path, 200), tmp_path / "run")
    assert prepared.task.batch_tokens == 512 and prepared.task.n_batches(0) >= 20


def test_little_memory_has_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_memory", lambda: 2_000_000)
    prepared = prepare(recipe_of(tmp_path, 3000), tmp_path / "run")
    assert FEWEST <= prepared.task.batch_tokens < ON_CPU


def test_a_run_with_it_is_trained_and_resumed(tmp_path: Path) -> None:
    tables = recipe_of(tmp_path, 300).tables()
    regard.train(tables, tmp_path / "run", device="cpu", quiet=True)
    run = regard.train(tables, tmp_path / "run", settings={"training.steps": 3}, resume=True, device="cpu", quiet=True)
    assert run.recipe.data.batch_tokens == 512


def test_several_processes_need_a_number(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, 3000, distribution={"kind": "data", "shards": 2})
    with pytest.raises(ConfigError, match="give a number where several train"):
        prepare(recipe, tmp_path / "run")


def test_another_word_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[data\] batch_tokens must be int or 'auto', got 'most'"):
        Recipe.read("gpt2", ["data.batch_tokens=most"])
    with pytest.raises(ConfigError, match="batch_tokens must be at least 1"):
        Recipe.read("gpt2", ["data.batch_tokens=0"])
    with pytest.raises(ConfigError, match=r"batch_tokens must be int, got 1\.5"):
        Recipe.read("gpt2", ["data.batch_tokens=1.5"])


def test_without_validation_nothing_waits_for_it(tmp_path: Path) -> None:
    training = {"steps": 2, "warmup": 1, "average_after": 5, "patience": 9}
    config = prepare(recipe_of(tmp_path, 200, training=training), tmp_path / "run").recipe.training
    assert (config.validate_every, config.average_after, config.patience) == (0, 0, 0)


def test_a_model_that_counts_has_no_steps_to_be_tried(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, 3000, model={"architecture": "markov"})
    prepared = prepare(recipe, tmp_path / "run", device=torch.device("cuda"))
    assert prepared.task.batch_tokens == ON_CPU
