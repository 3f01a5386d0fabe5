"""Keys and values far apart: recalled with a memory that holds them, and not without."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from regard.data.corpora import recall
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("recall")
    recall.write(folder / "recall")
    recipe = Recipe.read("recall")
    recipe = replace(recipe, data=replace(recipe.data, root=str(folder)))
    prepared = prepare(recipe, folder / "run")
    start(prepared, folder / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return load(folder / "run", "cpu")


def share_recalled(run: Run, length: int, memory: int, n: int) -> float:
    reader = run.model.reader
    reader.config = replace(reader.config, memory=memory)  # no weight depends on it
    questions = [recall.question(text) for text in recall.far_lines(length, n)]
    return sum(run.generate([asked], length=1)[0][0].text == value for asked, value in questions) / n


@pytest.mark.parametrize(("length", "n"), [(4096, 20), (32_768, 2)])
def test_what_is_far_back_is_recalled_with_a_memory_and_not_without(run: Run, length: int, n: int) -> None:
    """The model has learned from lines of at most 188 characters."""
    assert share_recalled(run, length, memory=length, n=n) >= 0.9
    assert share_recalled(run, length, memory=256, n=20) <= 0.3


def test_the_lines_are_on_disk(tmp_path: Path) -> None:
    assert "4096 and 32768" in recall.write(tmp_path)
    assert len((tmp_path / "far-4096.txt").read_text().splitlines()[0]) == 4096
