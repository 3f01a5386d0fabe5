"""The doctor's sheet: originals in the first column, then what the epochs of training read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.images.augment import augment, draw
from regard.runs.recipe import Recipe
from regard.tasks.images.changes import N_EPOCHS, N_IMAGES, changes, draw_changes
from regard.training.prepare import prepare

RECIPE = """
[task]
kind = "images"
{augmentation}
[data]
root = "{root}"
train = ["train.csv"]
columns = ["path", "label"]
[model]
architecture = "residual"
patch = 2
side = 8
channels = {channels}
d_model = 16
n_blocks = 1
"""


def made(place: Path, augmentation: str, channels: int = 3, sizes: tuple[int, ...] = (8,)):
    for i in range(20):
        pixels = np.random.default_rng(i).integers(0, 256, (6, sizes[i % len(sizes)], 3)).astype(np.uint8)
        Image.fromarray(pixels if channels == 3 else pixels[..., 0]).save(place / f"{i}.png")
    rows = "".join(f"{i}.png,{i % 2}\n" for i in range(20))
    (place / "train.csv").write_text(f"path,label\n{rows}", encoding="utf-8")
    text = RECIPE.format(root=place, augmentation=augmentation, channels=channels)
    (place / "recipe.toml").write_text(text, encoding="utf-8")
    return prepare(Recipe.read(str(place / "recipe.toml")), place / "run").task


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sizes", [(8,), (8, 10, 7)])
def test_the_first_column_are_the_originals(channels: int, sizes: tuple[int, ...], tmp_path: Path) -> None:
    task = made(tmp_path, "shift = 2\nflip = 0.5\nerase = 0.5\nmixup = 0.8\ncutmix = 1.0", channels, sizes)
    names, rows = changes(len(task.train), lambda chosen, epoch: task.collate(task.train, chosen, epoch))
    assert len(rows) == len(names) == N_IMAGES and {len(row) for row in rows} == {1 + N_EPOCHS}
    n_changed = 0
    for name, (original, *changed) in zip(names, rows, strict=True):
        number = int(name.split(":")[1]) - 2 if "csv" in name else int(Path(name).stem)
        pixels = np.asarray(Image.open(tmp_path / f"{number}.png")).reshape(6, -1, channels)
        np.testing.assert_array_equal(original[:, : pixels.shape[1]], pixels)  # 7 pixels fill 3 patches and a half
        assert all(image.shape == original.shape and image.dtype == np.uint8 for image in changed)
        n_changed += sum(not np.array_equal(image, original) for image in changed)
    assert n_changed > N_IMAGES * N_EPOCHS / 2


@pytest.mark.slow  # drawn by Matplotlib
@pytest.mark.parametrize(("channels", "sizes"), [(1, (8, 10, 7)), pytest.param(3, (8,), marks=pytest.mark.slow)])
def test_the_sheet_is_drawn(channels: int, sizes: tuple[int, ...], tmp_path: Path) -> None:
    """Once among the fast tests: a drawing takes as long as all the rest."""
    task = made(tmp_path, "flip = 0.5\nmixup = 0.8", channels, sizes)
    draw_changes(len(task.train), lambda chosen, epoch: task.collate(task.train, chosen, epoch), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_the_other_columns_are_what_the_epochs_read(tmp_path: Path) -> None:
    """Each image by itself, with the draws of its seed, epoch and place."""
    task = made(tmp_path, "shift = 2\nflip = 0.5\nerase = 0.5")
    _, rows = changes(len(task.train), lambda chosen, epoch: task.collate(task.train, chosen, epoch))
    chosen = np.unique(np.linspace(0, 19, N_IMAGES).astype(int))
    for place, row in zip(chosen, rows, strict=True):
        pixels = torch.from_numpy(task.train.store[int(place)].copy()).permute(2, 0, 1)[None] / 255
        for epoch in range(N_EPOCHS):
            draws = draw(task.config, task.setup.seed, epoch, np.array([place]), np.array([[6, 8]]))
            expected = augment(pixels, draws)[0].mul(255).round().byte().permute(1, 2, 0).numpy()
            np.testing.assert_allclose(row[1 + epoch].astype(int), expected, atol=1)


def test_without_augmentation_nothing_changes(tmp_path: Path) -> None:
    task = made(tmp_path, "")
    _, rows = changes(len(task.train), lambda chosen, epoch: task.collate(task.train, chosen, epoch))
    assert all(np.array_equal(image, row[0]) for row in rows for image in row)
