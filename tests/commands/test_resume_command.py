"""A resume that cannot be leaves the run as it was; other data than before are noticed."""

import os
import signal
from pathlib import Path

import pytest
from calling import Call, content

from regard.runs.durable import only_one
from regard.training.learner import Learner


@pytest.mark.parametrize("setting", ["model.d_model=64", "model.n_layers=3"])
def test_a_resume_that_is_refused_changes_nothing(run: Path, regard: Call, setting: str) -> None:
    before = content(run)
    refused = regard("train", run, "--resume", "--set", setting, "--device", "cpu")
    assert refused.code == 1 and "does not fit" in refused.err
    assert content(run) == before
    assert regard("translate", run, "--device", "cpu", stdin=b"dog\n").code == 0


def test_a_file_of_as_many_batches_but_other_sentences_is_noticed(run: Path, regard: Call) -> None:
    source = run.parent / "data" / "train.fr"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    source.write_text("".join(reversed(lines)), encoding="utf-8")
    before = content(run)
    moved = f"data.root={run.parent / 'data'}"
    refused = regard("train", run, "--resume", "--set", moved, "--set", "training.steps=40", "--device", "cpu")
    assert refused.code == 1
    assert "are not those that" in refused.err and "train.fr. Nothing was changed" in refused.err
    assert content(run) == before


def test_files_that_were_moved_are_known_again(run: Path, regard: Call) -> None:
    moved = f"data.root={run.parent / 'data'}"
    told = regard("train", run, "--resume", "--set", moved, "--device", "cpu")
    assert told.code == 0, told.err
    assert str(run.parent / "data") in (run / "recipe.toml").read_text(encoding="utf-8")


@pytest.mark.slow  # a process that imports PyTorch and is interrupted
def test_what_ctrl_c_says_is_no_error(lab: Path, tmp_path: Path, regard: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped, where all is saved, and how to resume; then the resumed run ends as if nothing had happened."""
    update = Learner.update

    def interrupted(self, step, batches, places):  # type: ignore[no-untyped-def]
        update(self, step, batches, places)
        if step == 7:
            os.kill(os.getpid(), signal.SIGINT)

    new = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", interrupted)
        stopped = regard("train", lab / "tiny.toml", "--run", new, "--device", "cpu")
    checkpoint = new / "checkpoints" / "step-7"
    last = f"stopped by Ctrl-C after step 7. Saved: {checkpoint}. To resume: regard train {new} --resume\n"
    assert stopped.code == 130 and stopped.err.endswith(last) and "error" not in stopped.err
    assert checkpoint.is_dir() and regard("train", new, "--resume", "--device", "cpu").code == 0
    assert (new / "model.safetensors").read_bytes() == (lab / "one" / "model.safetensors").read_bytes()


def test_two_trainings_in_one_folder(run: Path, regard: Call) -> None:
    with only_one(run):
        refused = regard("train", run, "--resume", "--set", "training.steps=40", "--device", "cpu")
    assert refused.code == 1 and "another process is training in" in refused.err
    told = regard("train", run, "--resume", "--device", "cpu")
    assert told.code == 0, told.err


def test_a_training_that_has_not_begun_yet_is_left_alone_too(lab: Path, tmp_path: Path, regard: Call) -> None:
    new = tmp_path / "new"
    command = ("train", lab / "one" / "recipe.toml", "--run", new, "--device", "cpu")
    with only_one(new):
        (new / "tokenizer.json").write_text("of the first")
        refused = regard(*command)
    assert refused.code == 1 and "this one changed nothing" in refused.err
    assert content(new) == {new / "tokenizer.json": b"of the first"}


def test_a_folder_of_a_training_that_was_refused_is_not_left_behind(tmp_path: Path, regard: Call) -> None:
    refused = regard("train", "demo", "--run", tmp_path / "new", "--set", "data.train=[]", "--device", "cpu")
    assert refused.code == 1 and "names no training files" in refused.err
    assert not (tmp_path / "new").exists()


def test_a_resume_has_its_own_weights_and_settings(run: Path, lab: Path, regard: Call) -> None:
    refused = regard("train", run, "--resume", "--from", lab / "one", "--device", "cpu")
    assert refused.code == 1 and "continues from its own weights" in refused.err
    moved = ("--set", f"data.root={run.parent / 'data'}")
    told = regard("train", lab / "one" / "recipe.toml", "--run", run, "--resume", *moved, "--device", "cpu")
    assert told.code == 0 and f"its settings are those of {run / 'recipe.toml'}, not of" in told.out + told.err
