"""The doctor's rows about images: counted by hand, measured by numpy."""

from pathlib import Path

import numpy as np

from regard.data.images.examples import Images
from regard.data.images.pixels import PixelForm
from regard.data.images.report import image_rows, overlap_rows
from regard.data.images.sources import Array, Folder
from regard.data.images.store import store
from tests.data.images.drawing import noise, write_png


def of(array: np.ndarray, name: str) -> Images:
    source = Array(Path(name), array)
    return Images([(source, str(i + 1)) for i in range(len(array))])


def test_rows_of_a_part() -> None:
    array = noise(6, 20).reshape(6, 4, 5, 3)
    array[2], array[4], array[5] = array[0], array[1], 9
    images = of(array, "a.idx")
    images.notes.add("hidden file skipped", ".x")
    rows = {row.what: row for row in image_rows("train", images, store(images, PixelForm(), None), list("aabaab"))}
    values = {what: (row.value, row.where) for what, row in rows.items()}
    assert values["images"] == ("6", "")
    assert values["height x width, smallest / median / largest"] == ("4 x 5 / 4 x 5 / 4 x 5", "")
    assert values["different sizes"] == ("1", "")
    assert values["channels in the files"] == ("color 6", "")
    assert values["images of one color"] == ("1", "a.idx:6")
    assert values["the same as an earlier image"] == ("2", "a.idx:3")
    assert values["the same as an earlier image, with another label"] == ("1", "a.idx:3")
    assert values["label a"] == ("4 (66.7%)", "") and values["label b"] == ("2 (33.3%)", "")
    assert values["hidden file skipped"] == ("1", ".x")
    pixels = array.reshape(-1, 3) / 255
    assert values["mean, red/green/blue, of 6 images"][0] == "/".join(f"{x:.3f}" for x in pixels.mean(0))
    assert values["standard deviation, red/green/blue, of 6 images"][0] == "/".join(f"{x:.3f}" for x in pixels.std(0))


def test_sizes_and_kinds_of_files(tmp_path: Path) -> None:
    for i, shape in enumerate([(3, 4, 1), (9, 9, 3), (2, 2, 4), (4, 3, 1)]):
        write_png(tmp_path / f"{i}.png", noise(*shape))
    images = Images([(Folder(tmp_path), f"{i}.png") for i in range(4)])
    rows = {row.what: row.value for row in image_rows("train", images, store(images, PixelForm(channels=1), None))}
    assert rows["height x width, smallest / median / largest"] == "2 x 2 / 3 x 4 / 9 x 9"
    assert rows["different sizes"] == "4"
    assert rows["channels in the files"] == "gray 2, color 2, with alpha 1"
    assert "mean, gray, of 4 images" in rows and not any(what.startswith("label") for what in rows)


def test_overlaps_are_found_by_pixels() -> None:
    train, test = noise(4, 4, 3), noise(3, 4, 3)
    test[1] = train[2]
    images = {"train": of(train, "train.idx"), "valid": of(train[:1], "valid.idx"), "test": of(test, "test.idx")}
    stores = {name: store(part, PixelForm(), None) for name, part in images.items()}
    assert [tuple(row) for row in overlap_rows(stores, images)] == [
        ("valid", "also in training", "1", "valid.idx:1"),
        ("test", "also in training", "1", "test.idx:2"),
        ("test", "also in validation", "0", ""),
    ]
