"""Which files are taken for images with labels or captions, and settings that read them."""

import lzma
from pathlib import Path

import numpy as np
import pytest

from regard.config import build
from regard.data.config import DataConfig
from regard.data.files.recognizing import Recognized
from regard.data.images.files import captioned_images, labelled_images
from regard.data.images.recognizing import images_with_captions, images_with_labels
from tests.data.images.drawing import encoded, idx, noise, write_archive, write_png
from tests.data.images.test_files import FILES, write_flickr, write_folder, write_table

SENTENCES = [
    "a cat sits on a mat",
    "two dogs run in the park",
    "the bird sings",
    "a red house",
    "some fish swim",
    "a tree",
]


def labeled(paths: list[Path], n_train: int) -> Recognized:
    recognized = images_with_labels(paths)
    assert recognized is not None and images_with_captions(paths) is None
    assert paths[0].name in recognized.why and 0 < recognized.certainty <= 1
    data = dict(recognized.data)
    data.pop("valid_share", None)
    assert len(labelled_images(build(DataConfig, data, "data")).train) == n_train
    return recognized


def test_idx_files(tmp_path: Path) -> None:
    for part in ("t10k", "train"):
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(np.zeros(3, np.uint8)))
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(noise(3, 4, 4)))
    data = labeled(sorted(tmp_path.iterdir()), 3).data
    assert data["train"] == ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    assert data["test"] == ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def test_folders(tmp_path: Path) -> None:
    photos = write_folder(tmp_path / "photos")
    data = labeled([photos], 6).data
    assert (data["train"], data["valid_share"]) == (("photos",), 0.1)
    for part in ("train", "val", "test"):
        write_folder(tmp_path / "data" / part)
    data = labeled([tmp_path / "data"], 6).data
    assert (data["train"], data["valid"], data["test"]) == (("train",), ("val",), ("test",))


@pytest.mark.parametrize("name", ["photos.tar.xz", "photos.zip"])
def test_archives(tmp_path: Path, name: str) -> None:
    assert labeled([write_archive(tmp_path / name, FILES)], 6).data["train"] == (name,)


def test_tables(tmp_path: Path) -> None:
    write_folder(tmp_path)
    rows = [(name, name[:4]) for name in FILES]
    data = labeled([write_table(tmp_path / "t.csv", rows, ("file", "class"))], 6).data
    assert (data["train"], data["columns"]) == (("t.csv",), ("file", "class"))
    table = write_table(tmp_path / "c.tsv", list(zip(FILES, SENTENCES, strict=True)), ("file", "caption"))
    archive = write_archive(tmp_path / "a.tar", FILES)
    recognized = images_with_captions([table, archive])
    assert recognized is not None and images_with_labels([table, archive]) is None
    assert (recognized.data["train"], recognized.data["columns"]) == (("c.tsv", "a.tar"), ("file", "caption"))


def test_flickr8k(tmp_path: Path) -> None:
    write_flickr(tmp_path)
    names = ("token.txt.xz", "images.tar.xz", "trainImages.txt", "devImages.txt")
    (tmp_path / "train.txt").rename(tmp_path / "trainImages.txt")
    (tmp_path / "dev.txt").rename(tmp_path / "devImages.txt")
    recognized = images_with_captions([tmp_path / name for name in names])
    assert recognized is not None
    assert recognized.data["train"] == ("token.txt.xz", "images.tar.xz", "trainImages.txt")
    assert recognized.data["valid"] == ("token.txt.xz", "images.tar.xz", "devImages.txt")
    assert len(captioned_images(build(DataConfig, dict(recognized.data), "data")).train) == 2


def test_pictures_of_rows(tmp_path: Path) -> None:
    write_png(tmp_path / "train.png", noise(3, 9))
    (tmp_path / "train.json").write_text("[1, 2, 1]")
    assert labeled([tmp_path / "train.png", tmp_path / "train.json"], 3).data["train"] == ("train.png", "train.json")
    write_png(tmp_path / "train.png", noise(3, 10))
    assert images_with_labels([tmp_path / "train.png", tmp_path / "train.json"]) is None


def test_other_files_are_left_to_others(tmp_path: Path) -> None:
    contents = {
        "a.tsv": b"text\tlabel\n" + b"some words\tgood\nother words\tbad\n" * 9,
        "a.txt": b"a text\n" * 9,
        "a.png": encoded(noise()),
        "b.csv": b"\xff\xfe",
        "b.tar": b"not a tar",
        "b.zip": b"",
        "c.tar.xz": lzma.compress(b"not a tar"),
        "d.csv.xz": b"not xz",
        "e.idx": b"\0\0\x08\x03",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "empty").mkdir()
    for name in [*contents, "empty", "missing.tar"]:
        assert images_with_labels([tmp_path / name]) is None, name
        assert images_with_captions([tmp_path / name, tmp_path / "a.txt"]) is None, name
