"""The store: what is decoded once equals what is decoded alone, is found again, and is whole or absent."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import store as stores
from regard.data.images.examples import Images
from regard.data.images.pixels import PixelForm, decode
from regard.data.images.sources import Array, Folder
from regard.data.images.store import FILES, content_key, store
from regard.errors import RunError
from regard.memory import TooLarge
from tests.data.images.drawing import encoded, noise, write_png

FORM = PixelForm(size=6)


@pytest.fixture
def images(tmp_path: Path) -> Images:
    names = [f"{i:03}.png" for i in range(150)]  # several runs of a thread
    for i, name in enumerate(names):
        write_png(tmp_path / "photos" / name, noise(1 + i % 9, 1 + i % 7, 1 + 2 * (i % 2)))
    folder = Folder(tmp_path / "photos")
    return Images([(folder, name) for name in names])


@pytest.mark.sampled("the cases differ in their file alone")
@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("form", [PixelForm(), FORM, PixelForm(channels=1, size=4, resize="crop")])
def test_each_image_is_as_if_decoded_alone(images: Images, form: PixelForm, in_memory: bool, tmp_path: Path) -> None:
    pixels = store(images, form, None if in_memory else tmp_path / "cache")
    assert len(pixels) == len(images)
    for i in range(len(images)):
        expected = decode(bytes(images.raw(i)), "", form)
        assert (pixels[i] == expected).all() and pixels[i].shape == (*pixels.sizes[i], form.channels)
        assert not pixels[i].flags.writeable
    with pytest.raises(IndexError):
        pixels[len(pixels)]


def test_images_are_decoded_once(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = store(images, FORM, tmp_path / "cache")
    monkeypatch.setattr(stores, "decode_image", None)
    second = store(images, FORM, tmp_path / "cache")
    assert isinstance(second.pixels, np.memmap)
    assert (first.pixels == second.pixels).all() and (first.traits == second.traits).all()


def test_the_key_is_the_content_and_the_form(images: Images, tmp_path: Path) -> None:
    some = images.take(np.arange(3))
    keys = [content_key(some, form) for form in (FORM, PixelForm(size=7), PixelForm(size=6, channels=1))]
    keys += [content_key(images.take(np.array(places)), FORM) for places in ([0, 1], [0, 2, 1])]
    assert len(set(keys)) == 5
    os.rename(tmp_path / "photos", tmp_path / "moved")
    moved = Images([(Folder(tmp_path / "moved"), name) for _, name in some.origins])
    assert content_key(moved, FORM) == keys[0]


def test_arrays_are_kept_as_they_are(tmp_path: Path) -> None:
    gray, color = noise(4, 5, 6), noise(8, 15).reshape(8, 3, 5, 3)
    for array, form in ((gray, PixelForm(channels=1)), (color, PixelForm())):
        source = Array(Path("a.idx"), array)
        pixels = store(Images([(source, str(i + 1)) for i in range(len(array))]), form, tmp_path)
        assert all((pixels[i] == array[i].reshape(pixels[i].shape)).all() for i in range(len(array)))


@pytest.mark.sampled("the cases differ in their file alone")
@pytest.mark.parametrize("name", [*FILES, "digests.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_harmed_store_is_made_again(images: Images, tmp_path: Path, name: str, harm: str) -> None:
    few = images.take(np.arange(4))
    first = np.array(store(few, FORM, tmp_path / "cache").pixels)
    (folder,) = (tmp_path / "cache").iterdir()
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    if harm != "remove":
        (folder / name).write_bytes(data[:-3] if harm == "cut" else data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    assert (store(few, FORM, tmp_path / "cache").pixels == first).all()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_is_a_users_error(images: Images, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written.*the images are untouched.*data\.cache"):
        store(images, FORM, tmp_path / "file")


def test_a_killed_writer_leaves_no_store(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(stores, "save_array", full)
    with pytest.raises(RunError, match="No space left"):
        store(images, FORM, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_store_that_does_not_fit_in_memory_is_refused(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "free_memory", lambda: 1000)
    monkeypatch.setattr("regard.memory.free_memory", lambda: 1000)
    with pytest.raises(TooLarge, match=r"\d+ of 150 images needs about .*; make them smaller, or set data\.cache"):
        store(images, FORM, None)


def test_what_decoding_decided_is_noted_also_when_found_again(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = [Image.fromarray(noise()) for _ in range(2)]
    folder = tmp_path / "photos"
    write_png(folder / "0.png")
    write_png(folder / "1.png", noise(channels=4))
    (folder / "2.jpg").write_bytes(encoded(noise(), "JPEG", exif=exif))
    frames[0].save(folder / "3.gif", save_all=True, append_images=frames[1:])
    Image.new("CMYK", (2, 2)).save(folder / "4.jpg")
    (folder / "5.png").write_bytes(encoded(noise(channels=1).astype(np.uint16)))
    (folder / "6.png").write_bytes(encoded(noise(), exif=b"nothing of EXIF"))
    names = sorted(path.name for path in folder.iterdir())
    images = Images([(Folder(folder), name) for name in names])
    for _ in range(2):
        assert store(images, PixelForm(), tmp_path / "cache").notes.rows() == [
            "CMYK image converted to red, green, blue: 1 (first at 4.jpg)",
            "image with transparency laid over white: 1 (first at 1.png)",
            "16-bit image reduced to 8 bits: 1 (first at 5.png)",
            "animated or many-paged image: first frame read: 1 (first at 3.gif)",
            "image turned upright, as its EXIF data says: 1 (first at 2.jpg)",
            "EXIF data cannot be read: image not turned: 1 (first at 6.png)",
        ]
