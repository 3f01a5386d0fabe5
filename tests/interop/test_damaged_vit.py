"""Damaged folders of Vision Transformers: each an error and nothing worse."""

import json
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regard.errors import RegardError
from tests.interop.test_safe import damaged, mutate_bytes, mutate_json, read
from tests.interop.tiny_vit import make_timm, make_vit

MAKERS: dict[str, Callable[[Path], object]] = {"vit": make_vit, "timm": make_timm}


def damaged_images(folder: Path, chance: random.Random, n: int) -> Iterator[dict[str, bytes]]:
    """How pixels are made is damaged, too."""
    yield from damaged(folder, chance, n)
    processor = folder / "preprocessor_config.json"
    for i in range(n // 2 if processor.is_file() else 0):
        content = processor.read_bytes()
        changed = json.dumps(mutate_json(json.loads(content), chance)).encode()
        yield {processor.name: changed if i % 4 else mutate_bytes(content, chance)}


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("n", [60, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MAKERS)
def test_damaged_files_are_errors_and_nothing_worse(name: str, n: int, tmp_path: Path) -> None:
    """Some changes harm nothing (a dropout, another mean); all others must be a RegardError."""
    good_folder, place = tmp_path / "good", tmp_path / "bad"
    MAKERS[name](good_folder)
    read(good_folder)  # what this needs by itself
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chance, n_read, n_refused = random.Random(n), 0, 0
    good = {file.name: file.read_bytes() for file in good_folder.iterdir()}
    place.mkdir()
    for files in damaged_images(good_folder, chance, n):
        for file, content in (good | files).items():
            (place / file).write_bytes(content)
        n_read += 1
        try:
            read(place)
        except RegardError as error:
            assert str(error)
            n_refused += 1
    assert n_read >= n
    assert n_refused > n // 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 200_000  # kB
