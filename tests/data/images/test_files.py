"""Data sets of images in every form, and the mistakes that people make with their files."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.data.config import DataConfig
from regard.data.files.labelled import label_set
from regard.data.images import files
from regard.data.images.files import CaptionedImages, LabelledImages, captioned_images, labelled_images
from regard.data.images.pixels import PixelForm
from regard.data.images.store import store
from regard.errors import ConfigError, DataError
from tests.data.images.drawing import encoded, idx, noise, write_archive, write_png

PIXELS = {f"{label}/{i}.png": noise(4, 4) for label in ("cats", "dogs") for i in range(3)}
FILES = {name: encoded(pixels) for name, pixels in PIXELS.items()}
ROWS = [(name, name.partition("/")[0]) for name in PIXELS]
PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def read(root: Path, *names: str, columns: tuple[str, ...] = ()) -> LabelledImages:
    return labelled_images(DataConfig(root=str(root), train=names, columns=columns)).train


def captioned(root: Path, *names: str, columns: tuple[str, ...] = ()) -> CaptionedImages:
    return captioned_images(DataConfig(root=str(root), train=names, columns=columns)).train


def write_folder(folder: Path, members: dict[str, bytes] = FILES) -> Path:
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def write_table(path: Path, rows: list[tuple[str, str]], names: tuple[str, str] = ("path", "label")) -> Path:
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    if ".jsonl" not in path.name:
        between = "\t" if ".tsv" in path.name else ","
        lines = [between.join(row) for row in [names, *rows]]
    path.write_bytes(PACKERS[path.suffix if path.suffix in PACKERS else ""](("\n".join(lines) + "\n").encode()))
    return path


def check(read: LabelledImages, prefix: str = "") -> None:
    """All six images with their pixels, labels and names."""
    pixels = store(read.images, PixelForm(), None)
    assert [read.images.where(i) for i in range(len(read))] == [prefix + name for name in PIXELS]
    assert read.labels == [label for _, label in ROWS]
    assert all((pixels[i] == array).all() for i, array in enumerate(PIXELS.values()))
    assert label_set(read) == ("cats", "dogs")
    assert read.ids(("cats", "dogs")).tolist() == [0, 0, 0, 1, 1, 1]


# Forms of labeled images.


def test_folders_with_a_folder_for_each_class(tmp_path: Path) -> None:
    write_folder(tmp_path / "photos")
    (tmp_path / "photos/.DS_Store").write_bytes(b"x")
    (tmp_path / "photos/cats/notes.txt").write_bytes(b"x")
    (tmp_path / "photos/birds").mkdir()
    images = read(tmp_path, "photos")
    check(images)
    assert images.notes.counts == {
        "empty folder": 1,
        "hidden file skipped": 1,
        "file without the ending of an image skipped": 1,
    }
    assert images.notes.first["hidden file skipped"] == ".DS_Store"


@pytest.mark.parametrize("top", ["", "photos/", "./a/b/"])
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.xz", "a.zip"])
def test_archives_with_a_folder_for_each_class(tmp_path: Path, name: str, top: str) -> None:
    members = {top + member: data for member, data in FILES.items()} | {f"{top}cats/._1.png": b"of a Mac"}
    write_archive(tmp_path / name, members)
    images = read(tmp_path, name)
    check(images, f"{name}:{top.removeprefix('./')}")
    assert images.notes.counts == {"hidden file skipped": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_class_alone_is_still_its_folder(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.zip", {"photos/cats/1.png": FILES["cats/1.png"]})
    assert read(tmp_path, "a.zip").labels == ["cats"]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.jsonl.xz"])
@pytest.mark.parametrize("holder", ["", "a.tar", "a.tar.xz", "a.zip", "elsewhere"])
def test_tables_of_paths(tmp_path: Path, name: str, holder: str) -> None:
    write_table(tmp_path / name, ROWS)
    if "." in holder:
        write_archive(tmp_path / holder, FILES)
    else:
        write_folder(tmp_path / holder)
    prefix = f"{holder}:" if "." in holder else ""
    check(read(tmp_path, *filter(None, [name, holder]), columns=("path", "label")), prefix)


def test_paths_begin_at_the_folder_of_their_table(tmp_path: Path) -> None:
    write_folder(tmp_path / "inner")
    write_table(tmp_path / "inner/t.csv", ROWS)
    check(read(tmp_path, "inner/t.csv", columns=("path", "label")))


@pytest.mark.parametrize("packed", PACKERS)
def test_idx_files(tmp_path: Path, packed: str) -> None:
    pixels, labels = noise(5, 4, 6), np.array([3, 1, 3, 0, 1], np.uint8)
    for name, array in (("i", pixels), ("l", labels), ("i2", pixels[:2]), ("l2", labels[:2])):
        (tmp_path / f"{name}.idx{packed}").write_bytes(PACKERS[packed](idx(array)))
    images = read(tmp_path, *(f"{name}.idx{packed}" for name in ("i", "l", "i2", "l2")))
    assert images.labels == ["3", "1", "3", "0", "1", "3", "1"]
    assert (images.images.raw(1) == pixels[1]).all() and (images.images.raw(6) == pixels[1]).all()
    assert images.images.where(6) == f"i2.idx{packed}:2"
    assert images.keys()[1] == images.keys()[6] != images.keys()[0]


def test_pictures_of_rows(tmp_path: Path) -> None:
    pixels = noise(4, 9).reshape(4, 3, 3, 3)
    write_png(tmp_path / "1.png", pixels[:3].reshape(3, 9, 3))
    write_png(tmp_path / "2.png", pixels[3:].reshape(1, 9, 3))
    (tmp_path / "l.json").write_text("[6, 9, 9, 4]")
    images = read(tmp_path, "1.png", "2.png", "l.json")
    assert images.labels == ["6", "9", "9", "4"]
    assert images.images.where(3) == "2.png:1"
    assert all((images.images.raw(i) == pixels[i]).all() for i in range(4))


# Forms of images with captions.

CAPTIONS = [("cats/0.png", "a cat"), ("dogs/1.png", "a dog ."), ("cats/0.png", "it is a cat"), ("dogs/2.png", "dogs")]


@pytest.mark.parametrize("holder", ["", "a.tar.xz"])
def test_tables_of_captions(tmp_path: Path, holder: str) -> None:
    write_table(tmp_path / "t.tsv", [*CAPTIONS, ("dogs/0.png", " ")], ("path", "caption"))
    write_archive(tmp_path / holder, FILES) if holder else write_folder(tmp_path)
    images = captioned(tmp_path, *filter(None, ["t.tsv", holder]), columns=("path", "caption"))
    assert images.captions == [["a cat", "it is a cat"], ["a dog ."], ["dogs"]]
    assert [bytes(images.images.raw(i)) for i in range(3)] == [
        FILES[name] for name in ("cats/0.png", "dogs/1.png", "dogs/2.png")
    ]
    assert images.notes.rows() == ["empty caption skipped: 1 (first at t.tsv:6)"]


def write_flickr(root: Path, holder: str = "images.tar.xz") -> None:
    tokens = [f"{i}.png#{n}\tcaption {n} of {i} ." for i in (1, 2, 3, 9) for n in range(2)]
    (root / "token.txt.xz").write_bytes(lzma.compress("\n".join(tokens).encode()))
    members = {f"Flicker8k_Dataset/{i}.png": FILES["cats/0.png"] for i in (1, 2, 3)}
    write_archive(root / holder, members) if "." in holder else write_folder(root / holder, members)
    (root / "train.txt").write_text("3.png\n1.png\n\n")
    (root / "dev.txt").write_text("2.png\n")
    (root / "bad.txt").write_text("2.png\n9.png\n")


def test_flickr8k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flickr(tmp_path)
    opened = []
    plain = files.open_archive
    monkeypatch.setattr(files, "open_archive", lambda path: opened.append(path) or plain(path))
    shared = ("token.txt.xz", "images.tar.xz")
    parts = captioned_images(DataConfig(root=str(tmp_path), train=(*shared, "train.txt"), valid=(*shared, "dev.txt")))
    assert parts.train.captions == [["caption 0 of 3 .", "caption 1 of 3 ."], ["caption 0 of 1 .", "caption 1 of 1 ."]]
    assert parts.valid is not None and parts.valid.images.where(0) == "images.tar.xz:Flicker8k_Dataset/2.png"
    assert parts.train.notes.counts == {"empty line skipped": 1}
    assert len(opened) == 1  # both parts read the same archive


def test_a_caption_without_its_image_is_noted_unless_it_is_listed(tmp_path: Path) -> None:
    write_flickr(tmp_path)
    images = captioned(tmp_path, "token.txt.xz", "images.tar.xz")
    assert len(images) == 3
    assert images.notes.rows() == ["caption of an image that is not there skipped: 2 (first at 9.png)"]
    with pytest.raises(DataError, match=r"bad\.txt:2 names the image '9\.png', which is not in .*images\.tar\.xz"):
        captioned(tmp_path, "token.txt.xz", "images.tar.xz", "bad.txt")


# Parts.


def test_equal_images_stay_together(tmp_path: Path) -> None:
    pixels = [noise(2, 2) for _ in range(40)]
    for i in range(120):
        write_png(tmp_path / f"photos/{'ab'[i % 2]}/{i:03}.png", pixels[i % 40])
    parts = labelled_images(DataConfig(root=str(tmp_path), train=("photos",), valid_share=0.3, test_share=0.2))
    assert parts.valid is not None and parts.test is not None
    kept, held, tested = (set(part.keys()) for part in (parts.train, parts.valid, parts.test))
    assert kept and held and tested and not (kept & held or kept & tested or held & tested)
    assert len(parts.train) + len(parts.valid) + len(parts.test) == 120
    assert [part.images.where(0)[0] for part in (parts.train,)] == [parts.train.labels[0]]


# Mistakes.


def refused(root: Path, names: tuple[str, ...], message: str, columns: tuple[str, ...] = ()) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        read(root, *names, columns=columns)


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    write_png(tmp_path / "cat.png")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.xyz").write_bytes(b"x")
    refused(tmp_path, ("cat.png",), r"do not go together \(picture: cat\.png\); labeled images are idx files")
    refused(tmp_path, ("a.xyz",), r"\(other: a\.xyz\)")
    refused(tmp_path, ("missing.tar",), r"no file .*missing\.tar; check its name")
    (tmp_path / "b.csv.xz").write_bytes(b"x")
    refused(tmp_path, ("b.csv",), r"no file .*b\.csv; b\.csv\.xz exists: use that name")
    with pytest.raises(ConfigError, match=r"\(text: a\.txt\); images with captions are tables of paths and captions"):
        captioned(tmp_path, "a.txt")


def test_mistakes_in_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(tmp_path, ("empty",), "empty: no images at all; check the files")
    write_png(tmp_path / "photos/1.png")
    refused(tmp_path, ("photos",), r"1\.png is in no folder of a class; put it into the folder of its class")
    (tmp_path / "loop/cats").mkdir(parents=True)
    (tmp_path / "loop/cats/again").symlink_to(tmp_path / "loop")
    refused(tmp_path, ("loop",), "is a link to a folder that was read already")


def test_mistakes_in_tables(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_table(tmp_path / "t.csv", [("cats/0.png", "cats"), ("cats/9.png", "cats")])
    columns = ("path", "label")
    refused(tmp_path, ("t.csv",), r"t\.csv:3 names the image 'cats/9\.png', which is not in .*; fix the path", columns)
    refused(tmp_path, ("t.csv",), r'has two columns, paths and labels, as in columns = \["path", "label"\]')
    refused(tmp_path, ("t.csv",), "has no column 'class'; it has: path, label", ("path", "class"))
    write_table(tmp_path / "t.csv", [("cats/0.png", " ")])
    refused(tmp_path, ("t.csv",), r"t\.csv:2 has no label", columns)
    write_table(tmp_path / "t.csv", [(" ", "cats")])
    refused(tmp_path, ("t.csv",), r"t\.csv:2 names no image", columns)


def test_mistakes_in_idx_files(tmp_path: Path) -> None:
    (tmp_path / "i.idx").write_bytes(idx(noise(5, 4, 4)))
    (tmp_path / "l.idx").write_bytes(idx(np.zeros(4, np.uint8)))
    (tmp_path / "flat.idx").write_bytes(idx(noise(4, 4, 1)))
    refused(tmp_path, ("i.idx", "l.idx"), r"i\.idx has 5 images and l\.idx has 4 labels; each image needs one")
    refused(tmp_path, ("i.idx",), "idx files come in pairs, images and labels; got 1 with images and 0 with labels")
    refused(tmp_path, ("flat.idx", "l.idx"), r"flat\.idx has the sizes 4 x 4; expected images x height x width")


def test_mistakes_in_pictures_of_rows(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", noise(3, 9))
    write_png(tmp_path / "b.png", noise(3, 10))
    for name, text in (("two", "[1, 2]"), ("object", '{"a": 1}'), ("nested", "[[1], 2, 3]")):
        (tmp_path / f"{name}.json").write_text(text)
    refused(tmp_path, ("a.png", "two.json"), r"a\.png has 3 images and two\.json has 2 labels")
    refused(tmp_path, ("b.png", "two.json"), r"b\.png is 10 pixels wide, so its rows are not square images; to use one")
    refused(tmp_path, ("a.png", "object.json"), r"object\.json must be a JSON list of labels such as \[6, 9, 9\]")
    refused(tmp_path, ("a.png", "nested.json"), r"nested\.json: label 1: 'label' must be text, got \[1\]")


def test_mistakes_in_captions(tmp_path: Path) -> None:
    write_flickr(tmp_path)
    for name, text, message in (
        ("a.txt", "1.png\ta cat\n", r"a\.txt:1 must be a name, #, a number, a tab and a caption, got '1\.png"),
        ("b.txt", "1.png\n", r"one of b\.txt must have captions, on lines of a name, #.*; 0 of them have tabs"),
        ("c.txt", "8.png#0\tx\n", r"train\.txt:1 lists '3\.png', which has no caption in c\.txt"),
    ):
        (tmp_path / name).write_text(text)
        lists = ("train.txt",) if name == "c.txt" else ()
        with pytest.raises((DataError, ConfigError), match=message):
            captioned(tmp_path, name, "images.tar.xz", *lists)


def test_labels_of_images_are_checked_as_those_of_texts(tmp_path: Path) -> None:
    write_folder(tmp_path / "train")
    write_folder(tmp_path / "test", {"birds/1.png": FILES["cats/0.png"]})
    train, test = read(tmp_path, "train"), read(tmp_path, "test")
    with pytest.raises(
        DataError, match=r"birds/1\.png has the label 'birds', which training does not have; it has: cats"
    ):
        test.ids(label_set(train))
    with pytest.raises(DataError, match="no example of train has the label 'birds', so it cannot be learned"):
        label_set(train, ("birds", "cats", "dogs"))
    with pytest.raises(DataError, match="every example of test has the label 'birds'"):
        label_set(test)
