import dataclasses
import errno
import pickletools
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from tiny_training import CONFIG, TinyModel, TinyTask, run_tiny

from regard.errors import RunError
from regard.runs import checkpoints as module
from regard.runs.checkpoints import Checkpoints, TrainingProgress
from regard.runs.weights import read_tensors, save_weights, set_weights, weights_of
from regard.training.finish import average_checkpoints


def saved(run: Path, steps: list[int], best: int | None = None, keep: int = 2, every: int = 10) -> Checkpoints:
    checkpoints = Checkpoints(run, keep, every, print)
    for step in steps:
        tensors = {"model": {"weight": torch.full((3,), float(step))}}
        progress = TrainingProgress(step=step, best_step=best if best in steps[: steps.index(step) + 1] else None)
        checkpoints.save(progress, tensors, is_final=False)
    return checkpoints


def test_the_last_k_and_the_best_and_the_newest_stay(tmp_path: Path) -> None:
    assert saved(tmp_path / "a", [10, 20, 30, 40]).steps() == [30, 40]
    assert saved(tmp_path / "b", [10, 20, 30, 40], best=20).steps() == [20, 30, 40]
    assert saved(tmp_path / "c", [10, 20, 30, 37]).steps() == [20, 30, 37]
    assert saved(tmp_path / "d", [10, 20, 30, 37, 40]).steps() == [30, 40], "37 was saved for a signal, not by plan"


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, [10])
    checkpoints.save(TrainingProgress(step=10, validated=10), {"model": {"weight": torch.ones(2)}}, is_final=False)
    assert checkpoints.load(10).progress.validated == 10
    assert checkpoints.load(10).tensors["model"]["weight"].tolist() == [1.0, 1.0]
    assert not list(checkpoints.folder.glob(".*"))


def test_nothing_in_a_run_is_a_pickle(tmp_path: Path) -> None:
    run_tiny(tmp_path, dataclasses.replace(CONFIG, ema=0.9))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".jsonl", ".md", ".png"}
    for path in files:
        if path.suffix == ".safetensors":
            with safe_open(path, framework="pt") as file:
                assert list(file.keys())
        with pytest.raises((ValueError, IndexError, UnicodeDecodeError)):
            list(pickletools.genops(path.read_bytes()))
    with safe_open(tmp_path / "checkpoints/step-20/random.safetensors", framework="pt") as file:
        assert file.get_tensor("cpu").dtype == torch.uint8


def test_a_tied_weight_is_written_once_and_read_back_for_both(tmp_path: Path) -> None:
    model, other = TinyModel(), TinyModel()
    assert "out.weight" in model.state_dict()
    assert "out.weight" not in weights_of(model)
    with torch.no_grad():
        model.embed.weight.fill_(3)
    save_weights(weights_of(model), tmp_path / "model.safetensors")
    set_weights(other, read_tensors(tmp_path / "model.safetensors"), "the file")
    assert other.out.weight is other.embed.weight
    assert torch.equal(other.out.weight, model.out.weight)


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    class One(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(3))

    checkpoints = saved(tmp_path, [10, 20, 40], keep=3)
    model = One()
    average_checkpoints(model, checkpoints, [10, 20, 40])
    torch.testing.assert_close(model.weight.detach(), torch.full((3,), 70 / 3))


def test_an_average_that_is_worse_is_not_taken(tmp_path: Path) -> None:
    class Prefers(TinyTask):
        """Takes the n-th validation for the best."""

        def __init__(self, best: int) -> None:
            super().__init__()
            self.best, self.calls = best, 0

        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            self.calls += 1
            return {"loss": float(abs(self.calls - self.best))}

    config = dataclasses.replace(CONFIG, keep=3, average=3)
    taken = run_tiny(tmp_path / "average", config, task=Prefers(5))  # four validations, then that of the average
    assert taken.weights == "the average of steps 12, 16, 20"
    assert taken.values == {"loss": 0.0}
    single = run_tiny(tmp_path / "single", config, task=Prefers(3))
    assert single.weights == "step 15, the best by loss"
    best = tmp_path / "single/checkpoints/step-15/model.safetensors"
    assert (tmp_path / "single/model.safetensors").read_bytes() == best.read_bytes()


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("full_after", [0, 1, 9, 14])  # files written before the disk is full
def test_a_full_disk_says_what_is_intact(tmp_path: Path, full_after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left = full_after
    write = module.write_through

    def write_until_full(path: Path, content: bytes) -> None:
        nonlocal left
        if left == 0:
            path.write_bytes(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        left -= 1
        write(path, content)

    monkeypatch.setattr(module, "write_through", write_until_full)
    with pytest.raises(RunError, match="No space left on device") as caught:
        run_tiny(tmp_path)
    said = str(caught.value)
    steps = Checkpoints(tmp_path, 1, 1, print).steps()
    assert not list((tmp_path / "checkpoints").glob(".writing-*")), "the half-written files give their space back"
    if full_after < 4:
        assert steps == []
        assert "No checkpoint was written before" in said
    else:
        assert f"Intact: {tmp_path}/checkpoints/step-{steps[-1]}" in said
    assert f"regard train {tmp_path} --resume" in said

    monkeypatch.undo()
    run_tiny(tmp_path, resume=True)
    run_tiny(tmp_path / "whole")
    assert (tmp_path / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_full_disk_under_metrics_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, rows: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("regard.training.metrics.MetricsFile.add_steps", full)
    with pytest.raises(RunError, match=r"No space left.*Intact: .*step-0"):
        run_tiny(tmp_path)


def test_early_stopping_waits_its_patience(tmp_path: Path) -> None:
    class Worsening(TinyTask):
        calls = 0

        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            self.calls += 1
            return {"loss": [5.0, 3.0, 4.0, float("nan"), 3.0, 1.0][self.calls - 1]}

    result = run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=100, patience=3), task=Worsening())
    assert (result.steps, result.best_step, result.reason) == (25, 10, "no better validation in 3")
    assert result.values == {"loss": 3.0}
    again = run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=100, patience=3), task=Worsening(), resume=True)
    assert again.steps == 25
