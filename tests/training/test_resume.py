import dataclasses
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from tiny_training import CONFIG, CPU, DEVICES, SelfKilling, TinyModel, TinyTask, in_child, run_tiny

from regard.errors import RunError
from regard.runs.checkpoints import find_weights
from regard.runs.history import read_metrics
from regard.runs.weights import read_tensors
from regard.training.signals import Stopped

HERE = Path(__file__).parent
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SETTINGS = {
    "plain": {"steps": 8, "save_every": 3, "validate_every": 4},
    "accumulated, smoothed": {"steps": 7, "accumulate": 4, "ema": 0.9, "save_every": 2, "validate_every": 3, "keep": 1},
    "averaged": {"steps": 8, "save_every": 2, "validate_every": 3, "keep": 3, "average": 3, "schedule": "cosine"},
}


def python(program: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", str(HERE / program), *arguments]
    return subprocess.run(
        command,
        env=ONE_THREAD | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        **more,
    )


def kill_everywhere(root: Path, names: Iterable[str], which: str) -> None:
    settings = {name: SETTINGS[name] for name in names}
    done = python("kill_everywhere.py", str(root), which, json.dumps(settings))
    assert done.returncode == 0, done.stderr
    by_name = json.loads(done.stdout)
    assert by_name.keys() == settings.keys()
    for found in by_name.values():
        assert found["wrong"] == [], done.stderr
        assert found["killed"] == found["moments"] > 10, "every child must have been killed"
        assert found["rows"] > 8


@pytest.mark.slow  # a child for each of a dozen moments
def test_killed_at_some_moments_it_ends_the_same_bit_for_bit(tmp_path: Path) -> None:
    """While a file is half written, or before it gets its name, once for each name."""
    kill_everywhere(tmp_path, ["averaged"], "some")


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_killed_at_every_moment_it_ends_the_same_bit_for_bit(tmp_path: Path, name: str) -> None:
    kill_everywhere(tmp_path, [name], "every")


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("at_loss", [6, 7])  # 6 batches an epoch: its last and the first of the next
def test_killed_while_it_computes(tmp_path: Path, at_loss: int) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = {"steps": 16}
    run_tiny(whole, dataclasses.replace(CONFIG, **settings))
    assert in_child(killed, signal="SIGKILL", at_loss=at_loss, settings=settings)[0] == -9
    torch.manual_seed(99)  # the generator is part of the checkpoint
    other = TinyModel()
    with torch.no_grad():
        other.hidden.weight.zero_()  # so are the weights
    run_tiny(killed, dataclasses.replace(CONFIG, **settings), resume=True, model=other)
    assert read_metrics(killed / "metrics.jsonl") == read_metrics(whole / "metrics.jsonl")
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_stopped_between_logs_it_goes_on_with_the_same_samples(tmp_path: Path, device: torch.device) -> None:
    config = dataclasses.replace(CONFIG, log_every=7, ema=0.9)
    run_tiny(tmp_path / "whole", config, device=device)
    with pytest.raises(Stopped):
        run_tiny(tmp_path / "run", config, device=device, task=SelfKilling(signal.SIGTERM, at_loss=10))
    run_tiny(tmp_path / "run", config, device=device, resume=True)
    ours, theirs = (read_metrics(tmp_path / name / "metrics.jsonl") for name in ("run", "whole"))
    assert [(row["step"], row["kind"], row.get("n_tokens")) for row in ours] == [
        (row["step"], row["kind"], row.get("n_tokens")) for row in theirs
    ]
    tolerance = 0 if device == CPU else 1e-2
    assert [row["loss"] for row in ours] == pytest.approx([row["loss"] for row in theirs], rel=tolerance, abs=0)


def test_weights_are_averaged_when_validations_stop_improving_also_after_a_stop(tmp_path: Path) -> None:
    """At a rate that goes nowhere, the third validation is the second without a new best."""

    class Worsening(SelfKilling):
        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            self.n_validations = getattr(self, "n_validations", 0) + 1
            return {"loss": super().validate(model)["loss"] + (100.0 if self.n_validations > 1 else 0.0)}

    config = dataclasses.replace(CONFIG, optimizer="sgd", learning_rate=1e-3, average_after=2, validate_every=3)
    run_tiny(tmp_path / "whole", config, task=Worsening(signal.SIGTERM, at_loss=0))
    state = json.loads((tmp_path / "whole/checkpoints/step-20/state.json").read_text())
    assert state["progress"]["averaged_since"] == 9
    with pytest.raises(Stopped):
        run_tiny(tmp_path / "run", config, task=Worsening(signal.SIGTERM, at_loss=14))
    after = Worsening(signal.SIGTERM, at_loss=0)
    after.n_validations = 4
    run_tiny(tmp_path / "run", config, resume=True, task=after)
    ours, theirs = (read_tensors(tmp_path / name / "checkpoints/step-20/ema.safetensors") for name in ("run", "whole"))
    latest = read_tensors(tmp_path / "whole/checkpoints/step-20/model.safetensors")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert not torch.equal(theirs["hidden.weight"], latest["hidden.weight"])


def test_on_cpu_the_algorithms_are_deterministic_while_it_trains(tmp_path: Path) -> None:
    class Asking(TinyTask):
        answers: ClassVar[list[bool]] = []

        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            self.answers.append(torch.are_deterministic_algorithms_enabled())
            return super().validate(model)

    run_tiny(tmp_path, task=Asking())
    assert Asking.answers == [True] * 4
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow  # trainings with threads that the other tests lack
def test_two_threads_are_reproducible_too(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run_tiny(tmp_path / "one")
        run_tiny(tmp_path / "other")
    finally:
        torch.set_num_threads(before)
    assert read_metrics(tmp_path / "one/metrics.jsonl") == read_metrics(tmp_path / "other/metrics.jsonl")


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("damage", ["half written", "cut off", "changed byte", "lost file", "no state"])
def test_a_damaged_newest_checkpoint_is_passed_over_and_said(tmp_path: Path, damage: str) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    run_tiny(whole, dataclasses.replace(CONFIG, keep=9))
    run_tiny(run, dataclasses.replace(CONFIG, keep=9, steps=10, patience=0))
    newest = run / "checkpoints/step-10"
    weights = newest / "model.safetensors"
    content = weights.read_bytes()
    if damage == "half written":
        newest.rename(run / "checkpoints/.writing-step-10")
    elif damage == "cut off":
        weights.write_bytes(content[:-5])
    elif damage == "changed byte":
        weights.write_bytes(content[:-5] + b"\x00\x01\x02\x03\x04")
    elif damage == "lost file":
        weights.unlink()
    else:
        (newest / "state.json").write_text('{"progress": {"st')
    screen = io.StringIO()
    run_tiny(run, dataclasses.replace(CONFIG, keep=9), resume=True, say=screen)
    assert (f"skipping {newest}" in screen.getvalue()) == (damage != "half written")
    assert "resuming from " + str(run / "checkpoints/step-8") in screen.getvalue()
    assert not list((run / "checkpoints").glob(".*"))
    ours, theirs = read_metrics(run / "metrics.jsonl"), read_metrics(whole / "metrics.jsonl")
    assert [row for row in ours if row["kind"] == "train"] == [row for row in theirs if row["kind"] == "train"]
    steps = [row["step"] for row in ours if row["kind"] == "train"]
    assert steps == list(range(1, 21))


def test_a_checkpoint_that_was_being_replaced_comes_back(tmp_path: Path) -> None:
    run_tiny(tmp_path)
    (tmp_path / "checkpoints/step-20").rename(tmp_path / "checkpoints/.replaced-step-20")
    screen = io.StringIO()
    run_tiny(tmp_path, resume=True, say=screen)
    assert "resuming from " + str(tmp_path / "checkpoints/step-20") in screen.getvalue()


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    run_tiny(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"already holds a run \(step 20\).*--resume") as caught:
        run_tiny(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_resuming_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run to resume"):
        run_tiny(tmp_path / "nowhere", resume=True)


def test_a_finished_run_goes_on_to_more_steps(tmp_path: Path) -> None:
    run_tiny(tmp_path / "long")
    run_tiny(tmp_path / "short", dataclasses.replace(CONFIG, steps=12))
    run_tiny(tmp_path / "short", resume=True)
    ours, theirs = (
        [row for row in read_metrics(tmp_path / name / "metrics.jsonl") if row["kind"] == "train"]
        for name in ("short", "long")
    )
    assert ours == theirs


class BestAtFive(TinyTask):
    def validate(self, model: torch.nn.Module) -> dict[str, float]:
        self.calls = getattr(self, "calls", 0) + 1
        return {"loss": float(self.calls)}


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(("before", "after"), [(0.0, 0.9), (0.9, 0.0)])
def test_the_best_weights_are_those_that_were_validated_also_where_ema_has_changed(
    tmp_path: Path, before: float, after: float
) -> None:
    task = BestAtFive()  # its first validation stays the best
    run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=12, ema=before), task=task)
    result = run_tiny(tmp_path, dataclasses.replace(CONFIG, ema=after), resume=True, task=task)
    which = "ema" if before else "model"
    assert result.weights == "step 5, the best by loss" + (" (running average)" if before else "")
    kept = read_tensors(tmp_path / "model.safetensors")
    best = read_tensors(tmp_path / f"checkpoints/step-5/{which}.safetensors")
    assert all(torch.equal(kept[name], best[name]) for name in kept)


def test_other_data_are_noticed(tmp_path: Path) -> None:
    class Other(TinyTask):
        def n_batches(self, epoch: int) -> int:
            return 3

    run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=9))
    with pytest.raises(RunError, match="epoch 1 had 6 batches and has 3"):
        run_tiny(tmp_path, resume=True, task=Other())


def test_other_weights_are_noticed(tmp_path: Path) -> None:
    run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=9))
    model = TinyModel()
    model.hidden = torch.nn.Linear(8, 8, bias=False)
    with pytest.raises(RunError, match=r"step-9 does not fit the model: missing .*unknown .*hidden\.bias"):
        run_tiny(tmp_path, resume=True, model=model)


def test_a_resume_on_another_machine_is_said_and_recorded(tmp_path: Path) -> None:
    run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=9))
    path = tmp_path / "environment.json"
    record = json.loads(path.read_text())
    record["now"]["threads"] = 77
    path.write_text(json.dumps(record))
    screen = io.StringIO()
    run_tiny(tmp_path, resume=True, say=screen)
    assert "this machine differs from before, so losses may differ too: threads was 77" in screen.getvalue()
    assert json.loads(path.read_text())["changes"][0]["step"] == 9


def test_weights_of_an_unfinished_run_are_its_best(tmp_path: Path) -> None:
    class Worse(TinyTask):
        calls = 0

        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            self.calls += 1
            return {"loss": float(abs(self.calls - 2))}

    run_tiny(tmp_path, task=Worse())
    assert find_weights(tmp_path) == (tmp_path / "model.safetensors", "step 10, the best by loss")
    (tmp_path / "model.safetensors").unlink()
    assert find_weights(tmp_path) == (tmp_path / "checkpoints/step-10/model.safetensors", "step 10, the best so far")
    shutil.rmtree(tmp_path / "checkpoints/step-10")
    assert find_weights(tmp_path)[1] == "step 20, the newest"
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(RunError, match="holds no weights"):
        find_weights(tmp_path)
