"""Small image readers to look into, and captures with known answers."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console

import regard
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map
from regard.viewer.pictured import Pictured

RECIPE = """
[task]
kind = "images"
pooling = "{pooling}"
shift = 1
[data]
root = "{root}"
train = ["train.csv"]
columns = ["path", "label"]
batch_tokens = 100
[model]
{model}
[training]
steps = 1
"""
VIT = 'architecture = "vit"\npatch = 4\nside = 4\nd_model = 16\nn_heads = 2\nn_layers = 3\nd_ff = 16'
RESIDUAL = 'architecture = "residual"\npatch = 4\nside = 4\nd_model = 32\nn_blocks = 1'
WORDS = ["a", " dog", " runs", " </s>"]


def write_images(place: Path, n: int = 6) -> None:
    """Color images of 10 x 14 pixels, which do not fill patches of 4; the top of every second is bright."""
    place.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        pixels = np.random.default_rng(i).integers(0, 120, (10, 14, 3)).astype(np.uint8)
        pixels[:5] += np.uint8(120 * (i % 2))
        Image.fromarray(pixels).save(place / f"{i}.png")
    rows = "".join(f"{i}.png,{'top' if i % 2 else 'none'}\n" for i in range(n))
    (place / "train.csv").write_text(f"path,label\n{rows}", encoding="utf-8")


def trained(place: Path, model: str = VIT, class_row: bool = True) -> Run:
    write_images(place)
    if model == VIT:
        model += f"\nclass_row = {str(class_row).lower()}"
    pooling = "first" if class_row else "mean"
    (place / "recipe.toml").write_text(RECIPE.format(root=place, model=model, pooling=pooling), encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / "run")
    start(prepared, place / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / "run", "cpu")


def image(class_row: bool = True, rows: int = 3, columns: int = 4, patch: int = 2) -> Pictured:
    pixels = np.random.default_rng(0).integers(0, 256, (rows * patch, columns * patch, 3)).astype(np.uint8)
    return Pictured(pixels, patch, class_row)


def hot(image: Pictured) -> Capture:
    """Two layers of two heads; in layer 1, head 0, each row looks at itself, and the class row at patch 1,2."""
    names, n = image.names, len(image.names)
    random, maps = np.random.default_rng(1), []
    for layer in range(2):
        for head in range(2):
            weights = random.dirichlet(np.full(n, 0.5), size=n)
            if (layer, head) == (1, 0):
                weights = np.eye(n)
                if image.class_row:
                    weights[0] = np.eye(n)[image.place(1, 2)]
            maps.append(Map(kind="self", layer=layer, head=head, queries=names, keys=names, weights=weights))
    return Capture(title="dog.png → dog (98.0%)", maps=maps, image=image)


def captioned(image: Pictured) -> Capture:
    """Word i looks at patch 0,i alone."""
    n = len(image.names)
    cross = np.eye(n)[[image.place(0, i) for i in range(len(WORDS))]]
    sides = {"encoder": (image.names, image.names), "decoder": (WORDS, WORDS), "cross": (WORDS, image.names)}
    weights = {"encoder": np.full((n, n), 1 / n), "decoder": np.eye(len(WORDS)), "cross": cross}
    maps = [
        Map(kind=kind, layer=0, head=head, queries=queries, keys=keys, weights=weights[kind])
        for kind, (queries, keys) in sides.items()
        for head in range(2)
    ]
    return Capture(title="dog.png → a dog runs", maps=maps, image=image)


CAPTIONS = """
[task]
kind = "captions"
shift = 1
[data]
root = "{root}"
train = ["captions.csv"]
columns = ["path", "caption"]
max_length = 16
[tokenizer]
kind = "spaces"
vocab_size = 40
[model]
architecture = "{architecture}"
patch = 4
side = 4
{model}
[training]
steps = 1
"""
CAPTIONERS = {
    "image-transformer": "d_model = 16\nn_heads = 2\nn_layers = 2\nd_ff = 16\nmax_length = 32",
    "image-seq2seq": "d_model = 32\nd_hidden = 16\nmax_length = 32",
}


def captioner(place: Path, architecture: str) -> Run:
    write_images(place)
    rows = "".join(f"{i}.png,a dog runs on the {'top' if i % 2 else 'floor'}\n" for i in range(6))
    (place / "captions.csv").write_text(f"path,caption\n{rows}", encoding="utf-8")
    text = CAPTIONS.format(root=place, architecture=architecture, model=CAPTIONERS[architecture])
    (place / "recipe.toml").write_text(text, encoding="utf-8")
    prepared = prepare(Recipe.read(str(place / "recipe.toml")), place / "run")
    start(prepared, place / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    return regard.load(place / "run", "cpu")
