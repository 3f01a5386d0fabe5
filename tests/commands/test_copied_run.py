"""A run that holds its data, in its folder `data`, is evaluated and looked over wherever it was copied to."""

import shutil
from pathlib import Path

import pytest
from calling import Call

from regard.data.config import DataConfig
from regard.errors import ConfigError
from regard.training.keeping import copy_data


@pytest.fixture
def moved(lab: Path, tmp_path: Path) -> Path:
    """A run whose recipe names a folder of data that is gone, with a copy of them inside."""
    run = Path(shutil.copytree(lab / "one", tmp_path / "moved"))
    recipe = (run / "recipe.toml").read_text(encoding="utf-8")
    (run / "recipe.toml").write_text(recipe.replace(str(lab / "data"), "/no such folder"), encoding="utf-8")
    shutil.copytree(lab / "data", run / "data")
    return run


def test_a_copied_run_is_evaluated_on_the_data_inside_it(moved: Path, lab: Path, regard: Call) -> None:
    evaluated, before = (regard("evaluate", run, "--json", "--device", "cpu") for run in (moved, lab / "one"))
    assert evaluated.code == 0, evaluated.err
    figures, expected = (
        [line for line in outcome.out.splitlines() if "second" not in line and '"run":' not in line]
        for outcome in (evaluated, before)
    )
    assert figures == expected and len(figures) > 10


def test_the_doctor_reads_the_data_inside(moved: Path, regard: Call) -> None:
    looked = regard("doctor", moved, "--seconds", "0.2", "--device", "cpu")
    assert looked.code == 0, looked.err
    assert "The data" in looked.out


def test_data_inside_that_are_not_all_are_not_taken(moved: Path, regard: Call) -> None:
    (moved / "data" / "train.fr").unlink()
    refused = regard("evaluate", moved, "--device", "cpu")
    assert refused.code == 1 and "no file /no such folder/held-out.en" in refused.err
    assert "the folder data inside a run, which must have all files that its recipe names" in refused.err


def test_another_root_that_is_asked_for_is_taken(moved: Path, lab: Path, regard: Call) -> None:
    (moved / "data" / "held-out.en").write_text("A line.\n", encoding="utf-8")
    assert regard("evaluate", moved, "--device", "cpu").code == 1, "one line of a source, twelve of its translation"
    assert regard("evaluate", moved, "--root", lab / "data", "--device", "cpu").code == 0


def test_training_can_keep_its_data(lab: Path, regard: Call, tmp_path: Path) -> None:
    steps = ("--set", "training.steps=2", "--set", "task.metric=loss", "--device", "cpu")
    trained = regard("train", lab / "tiny.toml", "--run", "kept", "--keep-data", *steps)
    assert trained.code == 0, trained.err
    assert "the data are kept: 6 files and folders" in trained.out
    for file in (lab / "data").iterdir():
        assert (tmp_path / "kept" / "data" / file.name).read_bytes() == file.read_bytes()
    (tmp_path / "kept").rename(tmp_path / "elsewhere")
    resumed = regard("train", "elsewhere", "--resume", "--set", "training.steps=3", "--device", "cpu")
    assert resumed.code == 0, resumed.err
    assert "data.root" not in resumed.out


@pytest.mark.parametrize("name", ["../secret.txt", "/etc/hostname"])
def test_only_what_is_in_the_root_is_copied(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"leads out of it; set data.root to a folder above all files"):
        copy_data(DataConfig(root=str(tmp_path), train=(name,)), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_images_is_copied(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.png").write_bytes(b"x" * 2**20)
    said = copy_data(DataConfig(root=str(tmp_path), train=("cats",)), tmp_path / "run")
    assert (tmp_path / "run" / "data" / "cats" / "1.png").is_file() and "1.0 MiB" in said


def test_a_copy_that_was_stopped_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    data = DataConfig(root=str(tmp_path), train=("a.txt",))

    def half(_: Path, place: Path) -> None:
        place.write_text("one\n", encoding="utf-8")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "copyfile", half)
        copy_data(data, tmp_path / "run")
    copy_data(data, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "data").iterdir()] == ["a.txt"]
    assert (tmp_path / "run" / "data" / "a.txt").read_text(encoding="utf-8") == "one\ntwo\n"
