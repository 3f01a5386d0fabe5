"""Mistakes on the command line, by the text of their errors; faults that are known are marked and strict."""

import shutil
from pathlib import Path

import pytest
import safetensors.torch
from calling import Call


@pytest.mark.sampled("every case is a run of the command of its own", cases=3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("translate", "nowhere"), "nowhere is not a run folder: it has no recipe.toml"),
        (("evaluate", "nowhere"), "nowhere does not exist; give a run folder or a test file"),
        (("show", "transformer-bas"), "did you mean 'transformer-base'?"),
        (("train", "transformer-bas"), "did you mean 'transformer-base'?"),
        (("train", "TINY", "--set", "model.d_modle=8"), "[model] has no setting 'd_modle'; did you mean 'd_model'?"),
        (("train", "TINY", "--set", "training.steps=many"), "[training] steps must be int, got 'many'"),
        (("train", "TINY", "--set", "model.n_heads=3"), "d_model (32) must be a multiple of n_heads (3)"),
        (("train", "TINY", "--set", "data.root=/nowhere"), "no file /nowhere/train.en; check its name"),
        (("train", "TINY", "--set", "data.train=[]"), "names no training files"),
        (("train", "TINY", "--device", "abacus"), "unknown device 'abacus'; use cpu, cuda or cuda:N"),
        (("train", "nowhere", "--resume"), "there is no run to resume in runs/nowhere"),
        (("train", "TINY", "--from", "nowhere"), "--from nowhere is not a run folder: it has no recipe.toml"),
        (("translate", "ONE", "no.txt"), "no file no.txt"),
        (("translate", "ONE", "--set", "beams=4"), "[decoding] has no setting 'beams'; did you mean 'beam'?"),
        (("translate", "ONE", "--set", "beam"), "--set needs name=value, got 'beam'"),
        (("translate", "ONE", "--device", "abacus"), "unknown device 'abacus'; use cpu, cuda or cuda:N"),
        (("look", "ONE", ""), "there is nothing to look at: the text is empty"),
        (("look", "ONE", "dog", "--layer", "9"), "there is no layer 9; the model has"),
        (("look", "ONE", "dog " * 200, "--target", "chien"), "too long for the model, which reads it in 13 parts"),
        (("evaluate", "ONE", "ONE", "ONE"), "evaluate takes one or two runs, got 3"),
        (("score", "ONE", "TINY", "no.fr"), "no file no.fr"),
        (("neighbors", "ONE", "qqq"), "'qqq' is not one token of this run"),
        (("doctor", "nothing"), "no recipe 'nothing'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_said_clearly(lab: Path, regard: Call, arguments: tuple[str, ...], said: str) -> None:
    places = {"ONE": str(lab / "one"), "TINY": str(lab / "tiny.toml")}
    ended = regard(*(places.get(argument, argument) for argument in arguments))
    assert ended.code == 1
    assert said in ended.err and ended.err.startswith("error: ")
    assert "Traceback" not in ended.err and "bug in regard" not in ended.err


@pytest.mark.parametrize(
    "setting", ["model.max_length=20", "model.d_model=-4", "model.dropout=2", "model.n_heads=0", "model=5"]
)
def test_a_model_that_cannot_be_is_said_clearly(lab: Path, regard: Call, setting: str) -> None:
    ended = regard("train", lab / "tiny.toml", "--set", setting, "--device", "cpu")
    assert ended.code == 1 and "bug in regard" not in ended.err


@pytest.mark.parametrize("device", ["mps", "meta"])
def test_a_device_that_is_not_here_is_said_clearly(lab: Path, regard: Call, device: str) -> None:
    ended = regard("translate", lab / "one", "--device", device, stdin=b"dog\n")
    assert ended.code == 1 and "bug in regard" not in ended.err


def test_a_tokenizer_of_another_run_is_said_clearly(lab: Path, regard: Call, tmp_path: Path) -> None:
    run = shutil.copytree(lab / "one", tmp_path / "one")
    learn = ("tokenizer", "train", lab / "data/train.en", "--vocab-size", "3000", "--out", run / "tokenizer.json")
    kept = regard(*learn)
    assert kept.code == 1 and "tokenizer.json exists already and is not overwritten" in kept.err
    (run / "tokenizer.json").unlink()
    assert regard(*learn).code == 0
    ended = regard("translate", run, "--device", "cpu", stdin=b"dog\n")
    assert ended.code == 1 and "it is not the tokenizer of this run" in ended.err


def test_weights_that_are_no_numbers_are_said_clearly(lab: Path, regard: Call, tmp_path: Path) -> None:
    run = shutil.copytree(lab / "one", tmp_path / "one")
    weights = safetensors.torch.load_file(run / "model.safetensors")
    safetensors.torch.save_file({name: w * float("nan") for name, w in weights.items()}, run / "model.safetensors")
    ended = regard("translate", run, "--device", "cpu", stdin=b"dog\n")
    assert ended.code == 1 and "the model's scores are NaN" in ended.err


def test_a_prefix_that_does_not_fit_is_said_clearly(lab: Path, regard: Call) -> None:
    ended = regard("translate", lab / "one", "--prefix", "chat " * 300, "--device", "cpu", stdin=b"dog\n")
    assert "bug in regard" not in ended.err


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("option", ["--html", "--png"])
def test_a_folder_that_is_not_there_is_said_clearly(lab: Path, regard: Call, option: str) -> None:
    ended = regard("look", lab / "one", "dog", option, "none/a.file", "--device", "cpu")
    assert "bug in regard" not in ended.err


def test_a_missing_test_file_is_named(lab: Path, regard: Call) -> None:
    ended = regard("evaluate", lab / "one", lab / "data" / "valid.en", "none.fr", "--device", "cpu")
    assert ended.code == 1 and "none.fr" in ended.err
