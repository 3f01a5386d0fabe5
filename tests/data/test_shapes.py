"""The corpus of shapes: what it says of a picture can be seen in the pixels."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.config import DataConfig
from regard.data.corpora import shapes
from regard.data.corpora.shapes import (
    COLORS,
    HELD_OUT,
    LIGHT,
    OPPOSITE,
    SHAPES,
    SIDE,
    ShapeCorpus,
    ShapeScene,
    generate,
    outline,
    relation_of,
)
from regard.data.images.boxes import Box
from regard.data.images.files import captioned_images
from regard.data.images.pixels import PixelForm, decode
from regard.errors import ConfigError

N = 300


def generate_few(n: int, seed: int = 0) -> ShapeCorpus:
    """With few pictures in the other parts, of which there are 2,500 otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "N_VALID", 50)
        patch.setattr(shapes, "N_TEST", 100)
        return generate(n, seed)


@pytest.fixture(scope="module")
def corpus() -> ShapeCorpus:
    return generate_few(N)


def scenes(corpus: ShapeCorpus) -> list[ShapeScene]:
    return [scene for part in corpus.parts.values() for scene in part.values()]


# What can be seen: nothing below asks the corpus what it drew.


def colors_seen(pixels: np.ndarray) -> np.ndarray:
    """The nearest color of every pixel, "" being the background (SIDE, SIDE)."""
    palette = {"": (LIGHT,) * 3, **COLORS}
    distances = np.stack([np.square(pixels.astype(int) - color).sum(-1) for color in palette.values()])
    return np.array(list(palette))[distances.argmin(0)]


def box_seen(mask: np.ndarray) -> Box:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return Box(int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)


def shape_seen(mask: np.ndarray, box: Box) -> str:
    """By the share of the box that is filled, and which corners and edges are."""
    own = mask[box.top : box.bottom, box.left : box.right]
    if own.all():
        return "square"
    if own[-1].all():
        return "triangle"
    if own.mean() > 0.7:
        return "circle"
    arm = own[0].sum()  # a cross is as wide at the top as a little below it, a diamond is not
    return "cross" if own[1].sum() == arm else "diamond"


def caption_seen(pixels: np.ndarray, first: str) -> str:
    """The true caption that begins with the object of this color."""
    colors = colors_seen(pixels)
    boxes = {str(color): box_seen(colors == color) for color in np.unique(colors) if color}
    names = {color: f"a {color} {shape_seen(colors == color, box)}" for color, box in boxes.items()}
    [second] = set(boxes) - {first}
    (top, left, bottom, right), (top_2, left_2, bottom_2, right_2) = boxes[first], boxes[second]
    down, across = top + bottom - top_2 - bottom_2, left + right - left_2 - right_2
    if abs(across) > abs(down):
        relation = "left of" if across < 0 else "right of"
    else:
        relation = "above" if down < 0 else "below"
    return f"{names[first]} {relation} {names[second]}"


# Looking at every pixel of every picture takes seconds; the fast tests look at some.
SOME_OR_ALL = pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])


@SOME_OR_ALL
def test_boxes_hold_exactly_the_pixels_of_their_objects(corpus: ShapeCorpus, every: int) -> None:
    for scene in scenes(corpus)[::every]:
        colors = colors_seen(scene.pixels())
        assert set(np.unique(colors)) == {"", *(thing.color for thing in scene.things)}
        for thing in scene.things:
            assert box_seen(colors == thing.color) == thing.box
            assert shape_seen(colors == thing.color, thing.box) == thing.shape


@SOME_OR_ALL
def test_captions_are_true_of_the_pixels(corpus: ShapeCorpus, every: int) -> None:
    for scene in scenes(corpus)[::every]:
        pixels = scene.pixels()
        assert scene.captions == tuple(caption_seen(pixels, thing.color) for thing in scene.things)


def test_nouns_are_the_words_that_name_the_objects(corpus: ShapeCorpus) -> None:
    for scene in scenes(corpus):
        for thing, nouns in zip(scene.things, scene.nouns, strict=True):
            for caption, noun in zip(scene.captions, nouns, strict=True):
                assert caption.split()[noun - 1 : noun + 1] == [thing.color, thing.shape]


def test_held_out_objects_are_in_no_other_part(corpus: ShapeCorpus) -> None:
    others = (corpus.train, corpus.valid, corpus.test)
    learned = {thing.name for part in others for scene in part.values() for thing in scene.things}
    held_out = {f"{color} {shape}" for color, shape in HELD_OUT}
    assert not learned & held_out
    assert len(learned | held_out) == len(COLORS) * len(SHAPES)
    assert all(any(thing.name in held_out for thing in scene.things) for scene in corpus.held_out.values())
    for names in (COLORS, SHAPES):  # each word is known from others
        assert all(sum(name in words.split() for words in learned) >= 4 for name in names)


def test_no_picture_is_there_twice(corpus: ShapeCorpus) -> None:
    assert len({scene.pixels().tobytes() for scene in scenes(corpus)}) == len(scenes(corpus))
    assert len({scene.things for scene in scenes(corpus)}) == len(scenes(corpus))  # nor one with other noise


def test_a_seed_gives_one_corpus(corpus: ShapeCorpus, tmp_path: Path) -> None:
    assert generate_few(N) == corpus and generate_few(N, seed=1).train != corpus.train
    small = generate_few(20)
    assert small.held_out == corpus.held_out  # however many there are to learn from
    for folder in ("a", "b"):
        small.write(tmp_path / folder)
    for file in ("images.zip", "train.csv", "valid.csv", "test.csv", "held-out.csv", "boxes.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one picture to learn from is needed, got 0"):
        generate(0)


@pytest.mark.slow  # the folder has all its pictures to test on: five seconds
def test_the_folder_is_read_as_images_with_captions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["shapes", str(tmp_path), "--n", "30"])
        patch.delitem(sys.modules, "regard.data.corpora.shapes")  # it is run anew
        runpy.run_module("regard.data.corpora.shapes", run_name="__main__")
    assert "30 pictures" in capsys.readouterr().out
    train, valid, test = (tuple(f"{part}.csv images.zip".split()) for part in ("train", "valid", "held-out"))
    columns = ("path", "caption")
    parts = captioned_images(DataConfig(root=str(tmp_path), train=train, valid=valid, test=test, columns=columns))
    lines = (tmp_path / "boxes.jsonl").read_text(encoding="utf-8").splitlines()
    boxes = {record["path"]: record["objects"] for record in map(json.loads, lines)}
    corpus = generate(30)
    for part, expected in ((parts.train, corpus.train), (parts.test, corpus.held_out)):
        assert part is not None and len(part) == len(expected)
        for i, (path, scene) in enumerate(expected.items()):
            raw = part.images.raw(i)
            assert isinstance(raw, bytes) and np.array_equal(decode(raw, path, PixelForm()), scene.pixels())
            assert tuple(part.captions[i]) == scene.captions
            assert [(known["name"], Box(*known["box"])) for known in boxes[path]] == [
                (thing.name, thing.box) for thing in scene.things
            ]


@given(st.sampled_from(list(SHAPES)), st.integers(3, SIDE))
def test_a_shape_touches_all_sides_of_its_box_and_is_symmetric(shape: str, size: int) -> None:
    mask = outline(shape, size)
    assert mask[0].any() and mask[-1].any() and mask[:, 0].any() and mask[:, -1].any()
    assert np.array_equal(mask, mask[:, ::-1])


CORNERS = st.tuples(st.integers(0, 24), st.integers(0, 24), st.integers(1, 8), st.integers(1, 8))
BOXES = CORNERS.map(lambda c: Box(c[0], c[1], c[0] + c[2], c[1] + c[3]))


@given(BOXES, BOXES)
def test_seen_from_the_other_object_the_relation_is_the_opposite(a: Box, b: Box) -> None:
    relation = relation_of(a, b)
    assert relation_of(b, a) == (relation and OPPOSITE[relation])
