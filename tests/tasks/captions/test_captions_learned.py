"""Captioners learn: 200 images of one colored square, and what is on images that they have not seen."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from regard import config
from regard.models.image_seq2seq import stochastic_penalty
from regard.nn.watch import watch
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.tasks.task import AnyTask
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

pytestmark = pytest.mark.slow

COLORS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230), "yellow": (230, 220, 40)}
IMAGES = {"patch": 8, "side": 4, "d_model": 64, "max_length": 32}
MODELS = {
    "image-transformer": {**IMAGES, "n_heads": 4, "n_layers": 2, "d_ff": 128, "pre_norm": True},
    "image-seq2seq": {**IMAGES, "d_hidden": 64, "d_image": 64, "n_blocks": 1},
}


def draw(i: int, folder: Path) -> str:
    """A square somewhere in a quarter of a dark image, and two captions."""
    chance = np.random.default_rng(i)
    color, size = list(COLORS)[chance.integers(4)], (6, 12)[chance.integers(2)]
    below, right = chance.integers(2, size=2)
    top, left = chance.integers(0, 17 - size, 2) + 16 * np.array([below, right])
    pixels = chance.integers(0, 40, (32, 32, 3)).astype(np.uint8)
    pixels[top : top + size, left : left + size] = COLORS[color]
    Image.fromarray(pixels).save(folder / f"{i}.png")
    thing = f"a {'large' if size == 12 else 'small'} {color} square"
    place = f"at the {'bottom' if below else 'top'} {'right' if right else 'left'}"
    return f"{i}.png,{thing} {place}\n{i}.png,{place} is {thing}\n"


def trained(name: str, folder: Path, **settings: object) -> tuple[Run, AnyTask]:
    for part, numbers in (("train", range(200)), ("valid", range(1000, 1100))):
        (folder / f"{part}.csv").write_text("path,caption\n" + "".join(draw(i, folder) for i in numbers))
    tables = {
        "task": {"kind": "captions"},
        "data": {
            "root": str(folder),
            "train": ["train.csv"],
            "valid": ["valid.csv"],
            "columns": ["path", "caption"],
            "max_length": 16,
            "batch_tokens": 1024,
        },
        "tokenizer": {"kind": "words", "vocab_size": 60},
        "model": {"architecture": name, **MODELS[name], **settings},
        "training": {"steps": 600, "schedule": "cosine", "learning_rate": 0.002, "warmup": 50, "validate_every": 200},
    }
    config.write(tables, folder / "recipe.toml")
    made = prepare(Recipe.read(str(folder / "recipe.toml")), folder / "run")
    start(made, folder / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return load(folder / "run", "cpu"), made.task


@pytest.mark.parametrize("name", MODELS)
def test_images_that_were_never_seen_get_the_right_captions(name: str, tmp_path: Path) -> None:
    run, _ = trained(name, tmp_path)
    values = {metric.name: metric.value for metric in run.measure().metrics}
    assert values["BLEU-4"] > 90, values


def test_the_penalty_makes_attention_even(tmp_path: Path) -> None:
    """Over a caption, every patch is looked at for about one word."""
    found = []
    for penalty in (0.0, 1.0):
        folder = tmp_path / f"{penalty}"
        folder.mkdir()
        run, task = trained("image-seq2seq", folder, doubly_stochastic=penalty)
        batch = task.collate(task.valid, np.arange(len(task.valid)))
        with torch.no_grad(), watch(run.model) as seen:
            run.model(batch.patches(), batch.source_layout, batch.target, batch.target_layout)
        weights = seen.of("cross", 0).weights[:, 0]
        found.append(float(stochastic_penalty(weights, batch.source_layout, batch.target_layout)))
    assert found[1] < 0.7 * found[0], found
