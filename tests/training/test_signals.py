import dataclasses
import os
import signal
from pathlib import Path

import pytest
import torch
from tiny_training import CONFIG, SelfKilling, TinyBatch, TinyTask, in_child, run_tiny

from regard.runs.checkpoints import Checkpoints
from regard.runs.history import read_metrics
from regard.training.signals import Stopped


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_finishes_the_step_saves_and_gives_its_exit_code(tmp_path: Path, name: str, code: int) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    exit_code, said = in_child(run, signal=name, at_loss=11)
    assert exit_code == code, said
    assert "finishing the step and saving" in said
    stopped = f"stopped by {'Ctrl-C' if name == 'SIGINT' else name} after step 11."
    saved = f"{stopped} Saved: {run}/checkpoints/step-11. To resume: regard train {run} --resume"
    assert saved in said
    assert Checkpoints(run, 1, 1, print).steps()[-1] == 11
    run_tiny(whole)
    run_tiny(run, resume=True)
    assert read_metrics(run / "metrics.jsonl") == read_metrics(whole / "metrics.jsonl")


def test_a_signal_breaks_off_a_validation_which_the_resumed_run_makes_up(tmp_path: Path) -> None:
    class Interrupted(TinyTask):
        def validate(self, model: torch.nn.Module) -> dict[str, float]:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().validate(model)

    config = dataclasses.replace(CONFIG, ema=0.9)
    with pytest.raises(Stopped) as caught:
        run_tiny(tmp_path / "run", config, task=Interrupted())
    assert caught.value.exit_code == 143
    assert Checkpoints(tmp_path / "run", 1, 1, print).load(5).progress.validated == 0
    run_tiny(tmp_path / "run", config, resume=True)
    run_tiny(tmp_path / "whole", config)
    assert read_metrics(tmp_path / "run/metrics.jsonl") == read_metrics(tmp_path / "whole/metrics.jsonl")
    assert (tmp_path / "run/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_interrupted_again_and_again_it_averages_the_same_checkpoints(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, average=3, keep=3)
    for attempt in range(3):
        with pytest.raises(Stopped):
            run_tiny(tmp_path / "run", config, resume=attempt > 0, task=SelfKilling(signal.SIGINT, at_loss=5))
    ours = run_tiny(tmp_path / "run", config, resume=True)
    theirs = run_tiny(tmp_path / "whole", config)
    assert ours.weights == theirs.weights
    assert (tmp_path / "run/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_second_signal_leaves_at_once_and_saves_nothing_half_done(tmp_path: Path) -> None:
    class Impatient(TinyTask):
        calls = 0

        def loss(self, model: torch.nn.Module, batch: TinyBatch) -> torch.Tensor:
            self.calls += 1
            if self.calls == 3:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                raise AssertionError("unreachable")
            return super().loss(model, batch)

    with pytest.raises(Stopped, match=r"immediately by a second Ctrl-C\. Intact: .*/step-0 ") as caught:
        run_tiny(tmp_path, task=Impatient())
    assert caught.value.exit_code == 130
    assert Checkpoints(tmp_path, 1, 1, print).steps() == [0]


def test_the_handlers_of_before_come_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    run_tiny(tmp_path)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
