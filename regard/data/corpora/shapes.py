"""Pictures of two shapes with captions, made by rule: nothing is downloaded, and it is known where every object is.

    python -m regard.data.corpora.shapes data/shapes

A red circle left of a blue square is also a blue square right of a red circle: every picture has both captions.  Some
objects, such as red circles, are in the held-out part only: there, other red things and other circles must be enough.
"""

import argparse
import csv
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import PIL.Image

from regard.data.images.boxes import Box
from regard.errors import ConfigError

SIDE = 32  # pixels of a picture
SIZES = (8, 13)  # pixels of an object, at least and at most
SLANT = 1.5  # one object is left of another if it is so many times farther to the left than it is above or below
LIGHT, NOISE = 225, 12  # the background, and how far a pixel may be from its color, in each channel
N_TRAIN, N_VALID, N_TEST = 6000, 500, 1000  # as many are held out as are in the test

COLORS = {
    "red": (210, 40, 40),
    "green": (40, 160, 60),
    "blue": (50, 80, 210),
    "yellow": (230, 200, 40),
    "purple": (140, 60, 170),
    "pink": (240, 120, 190),
}
# Which pixels a shape has, by their places across and down from its center in half pixels, and its size in pixels.
SHAPES: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "circle": lambda x, y, size: x**2 + y**2 <= size**2,
    "square": lambda x, y, size: np.maximum(abs(x), abs(y)) <= size,
    "triangle": lambda x, y, size: 2 * abs(x) <= y + size + 1,
    "diamond": lambda x, y, size: abs(x) + abs(y) <= size,
    "cross": lambda x, y, size: np.minimum(abs(x), abs(y)) <= size / 3,
}
KINDS = [(color, shape) for color in COLORS for shape in SHAPES]
HELD_OUT = list(zip(COLORS, cycle(SHAPES), strict=False))  # of each color one shape
LEARNED = [kind for kind in KINDS if kind not in HELD_OUT]
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}


@dataclass(frozen=True)
class Thing:
    """An object of a picture."""

    color: str
    shape: str
    size: int
    top: int
    left: int

    @property
    def name(self) -> str:
        return f"{self.color} {self.shape}"

    @property
    def box(self) -> Box:
        return Box(self.top, self.left, self.top + self.size, self.left + self.size)


def outline(shape: str, size: int) -> np.ndarray:
    """Which pixels of its box (size, size) a shape has; it touches all sides of the box."""
    steps = 2 * np.arange(size) - (size - 1)
    return SHAPES[shape](steps[None, :], steps[:, None], size)


@dataclass(frozen=True)
class ShapeScene:
    """Two things of different colors, and the seed of the noise on their picture."""

    first: Thing
    second: Thing
    noise: int

    @property
    def things(self) -> tuple[Thing, Thing]:
        return self.first, self.second

    @property
    def captions(self) -> tuple[str, str]:
        """Both that are true: the one that begins with the first thing, and the one that begins with the second."""
        relation = relation_of(self.first.box, self.second.box)
        assert relation is not None
        return (
            f"a {self.first.name} {relation} a {self.second.name}",
            f"a {self.second.name} {OPPOSITE[relation]} a {self.first.name}",
        )

    @property
    def nouns(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """For each thing, which word of the first and of the second caption is its noun, counted from 0."""
        last, last_opposite = (len(caption.split()) - 1 for caption in self.captions)
        return (2, last_opposite), (last, 2)

    def pixels(self) -> np.ndarray:
        """(SIDE, SIDE, 3), 8-bit."""
        pixels = np.full((SIDE, SIDE, 3), LIGHT)
        for thing in self.things:
            top, left, bottom, right = thing.box
            pixels[top:bottom, left:right][outline(thing.shape, thing.size)] = COLORS[thing.color]
        pixels += np.random.default_rng(self.noise).integers(-NOISE, NOISE + 1, pixels.shape)
        return pixels.clip(0, 255).astype(np.uint8)


def relation_of(a: Box, b: Box) -> str | None:
    """Where a is, seen from b; None where nobody could say."""
    across = (a.left + a.right - b.left - b.right) / 2
    down = (a.top + a.bottom - b.top - b.bottom) / 2
    if abs(across) >= SLANT * abs(down) and (a.right < b.left or b.right < a.left):
        return "left of" if across < 0 else "right of"
    if abs(down) >= SLANT * abs(across) and (a.bottom < b.top or b.bottom < a.top):
        return "above" if down < 0 else "below"
    return None


ScenesByPath = dict[str, ShapeScene]  # by the path of the picture in the archive


@dataclass(frozen=True, kw_only=True)
class ShapeCorpus:
    """Every picture of `held_out` has an object of `HELD_OUT`, and no other picture has."""

    train: ScenesByPath
    valid: ScenesByPath
    test: ScenesByPath
    held_out: ScenesByPath

    @property
    def parts(self) -> dict[str, ScenesByPath]:
        return {"train": self.train, "valid": self.valid, "test": self.test, "held-out": self.held_out}

    def write(self, folder: Path | str) -> None:
        """images.zip, a table for each part with two rows for each picture, and boxes.jsonl with all objects."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for part, scenes in self.parts.items():
            rows = [(path, caption) for path, scene in scenes.items() for caption in scene.captions]
            with (folder / f"{part}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([("path", "caption"), *rows])
        scenes = {path: scene for part in self.parts.values() for path, scene in part.items()}
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for path, scene in scenes.items():
                archive.writestr(zipfile.ZipInfo(path), as_png(scene.pixels()))
        lines = (json.dumps({"path": path, "objects": objects(scene)}) + "\n" for path, scene in scenes.items())
        (folder / "boxes.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")


def objects(scene: ShapeScene) -> list[dict[str, object]]:
    """Of boxes.jsonl: the name and the box of each, and the number of its noun in each caption of the picture."""
    return [
        {"name": thing.name, "box": thing.box, "nouns": nouns}
        for thing, nouns in zip(scene.things, scene.nouns, strict=True)
    ]


def as_png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def generate(n: int = N_TRAIN, seed: int = 0) -> ShapeCorpus:
    """n pictures to learn from, and those held out."""
    if n < 1:
        raise ConfigError(f"at least one picture to learn from is needed, got {n:,}")
    draw = np.random.default_rng(seed)

    def some_thing(kinds: Sequence[tuple[str, str]]) -> Thing:
        color, shape = kinds[int(draw.integers(len(kinds)))]
        size = int(draw.integers(SIZES[0], SIZES[1] + 1))
        top, left = draw.integers(SIDE - size + 1, size=2).tolist()
        return Thing(color, shape, size, top, left)

    def some_scene(kinds: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]]) -> ShapeScene:
        while True:
            first, second = some_thing(kinds), some_thing(others)
            if first.color != second.color and relation_of(first.box, second.box) is not None:
                return ShapeScene(first, second, noise=int(draw.integers(2**32)))

    return ShapeCorpus(
        held_out={f"held-out/{i:05}.png": some_scene(HELD_OUT, KINDS) for i in range(N_TEST)},
        test={f"test/{i:05}.png": some_scene(LEARNED, LEARNED) for i in range(N_TEST)},
        valid={f"valid/{i:05}.png": some_scene(LEARNED, LEARNED) for i in range(N_VALID)},
        train={f"train/{i:05}.png": some_scene(LEARNED, LEARNED) for i in range(n)},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m regard.data.corpora.shapes", description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--n", type=int, default=N_TRAIN, help="pictures to learn from (default: %(default)s)")
    given = parser.parse_args()
    generate(given.n).write(given.folder)
    print(f"wrote {given.folder}: {given.n:,} pictures to learn from, {N_VALID + 2 * N_TEST:,} others")
