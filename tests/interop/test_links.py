"""Links in an untrusted folder: those that lead out of it are not followed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import RunError
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.text.tokenizer import TokenizerConfig
from tests.interop.tiny import make

LINKED = ("config.json", "model.safetensors", "tokenizer_config.json", "generation_config.json")


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    make("gpt2", tmp_path / "gpt2")
    return tmp_path / "gpt2"


def read(folder: Path) -> Any:
    source = open_source(folder)
    return import_weights(source, recipe_of(source, TokenizerConfig(kind="words", vocab_size=53), 2))


@pytest.mark.parametrize("name", LINKED)
def test_a_link_out_of_the_folder_is_not_followed(name: str, gpt2: Path, tmp_path: Path) -> None:
    """It would bring a file of this machine into a run that is handed on."""
    (gpt2 / name).touch()
    (gpt2 / name).rename(tmp_path / "elsewhere")
    (gpt2 / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=rf"{name} is a link to .*elsewhere, out of the folder"):
        open_source(gpt2)


def test_a_folder_below_may_not_lead_out_either(gpt2: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (gpt2 / "model").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"model is a link to .*elsewhere, out of the folder"):
        open_source(gpt2)
    (gpt2 / "model").unlink()
    (gpt2 / "model").mkdir()
    (gpt2 / "model" / "model.bin").symlink_to(tmp_path / "elsewhere" / "model.bin")
    with pytest.raises(RunError, match=r"model.bin is a link to .*model.bin, out of the folder"):
        open_source(gpt2)


def test_links_in_a_circle_are_an_error(gpt2: Path) -> None:
    (gpt2 / "config.json").unlink()
    (gpt2 / "config.json").symlink_to("again")
    (gpt2 / "again").symlink_to("config.json")
    with pytest.raises(RunError, match=r"config\.json is missing"):
        open_source(gpt2)


def test_links_that_stay_within_are_followed(gpt2: Path, tmp_path: Path) -> None:
    """Also a link to the folder, and those of the hub's cache, whose files lie together in blobs."""
    (gpt2 / "model.safetensors").rename(gpt2 / "weights")
    (gpt2 / "model.safetensors").symlink_to("weights")
    (tmp_path / "link").symlink_to(gpt2)
    assert read(gpt2) and read(tmp_path / "link")
    cached, blobs = tmp_path / "models--gpt2" / "snapshots" / "0a1b", tmp_path / "models--gpt2" / "blobs"
    cached.mkdir(parents=True)
    blobs.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(gpt2 / name, blobs / f"sum-{name}")
        (cached / name).symlink_to(Path("../../blobs") / f"sum-{name}")
    assert read(cached)
    (cached / "generation_config.json").symlink_to(tmp_path / "link" / "config.json")
    with pytest.raises(RunError, match="out of the folder"):
        read(cached)
