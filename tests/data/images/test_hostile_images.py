"""Files that are broken, or made to do harm: each is refused by its name, before memory is taken."""

import io
import struct
import tarfile
import tracemalloc
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.config import DataConfig
from regard.data.images import archives
from regard.data.images.archives import open_archive
from regard.data.images.arrays import read_idx
from regard.data.images.files import labelled_images
from regard.data.images.opening import FORMATS
from regard.data.images.pixels import PixelForm, decode
from regard.data.images.store import store
from regard.errors import DataError
from regard.memory import TooLarge
from tests.data.images.drawing import encoded, idx, noise, write_archive, write_png

FORM = PixelForm()
SETTINGS = [("PNG", {}), ("JPEG", {}), ("JPEG", {"progressive": True}), ("GIF", {}), ("BMP", {}), ("WEBP", {})]
SETTINGS += [("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("PPM", {})]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
@pytest.mark.filterwarnings("ignore")  # those of PIL
def test_what_is_cut_off_is_refused_or_loses_no_pixel(kind: str, settings: dict[str, object]) -> None:
    data = encoded(noise(24, 30), kind, **settings)
    whole = decode(data, "cat", FORM)
    n_refused = 0
    for end in range(0, len(data), 10):
        try:
            assert (decode(data[:end], "cat", FORM) == whole).all(), end
        except DataError as error:
            assert str(error).startswith("cat ") and "take it out" in str(error)
            n_refused += 1
    assert n_refused >= (len(data) - 20) // 10


@pytest.mark.parametrize(("kind", "settings"), SETTINGS)
@pytest.mark.filterwarnings("ignore")
def test_flipped_bytes_end_in_pixels_or_an_error_of_ours(kind: str, settings: dict[str, object]) -> None:
    data, draw = encoded(noise(), kind, **settings), np.random.default_rng(0)
    for _ in range(60):
        spoiled = bytearray(data)
        for place in draw.integers(0, len(data), 3):
            spoiled[place] ^= int(draw.integers(1, 256))
        try:
            assert decode(bytes(spoiled), "cat", FORM).dtype == np.uint8
        except DataError as error:
            assert str(error).startswith("cat ")


def png_of(width: int, height: int) -> bytes:
    """A header that claims a size, and hardly any pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(60_000, 60_000), (10_000, 10_000), (2**30, 1)])
def test_a_header_that_claims_too_much_is_refused(width: int, height: int) -> None:
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with pytest.raises(DataError, match=r"bomb\.png is an image.* of more than 67,108,864 pixels; make it smaller"):
            decode(png_of(width, height), "bomb.png", FORM)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_an_image_without_pixels_is_refused() -> None:
    with pytest.raises(DataError, match=r"^a\.png "):
        decode(png_of(0, 5), "a.png", FORM)
    with pytest.raises(DataError, match=r"a\.png is an empty file"):
        decode(b"", "a.png", FORM)


@pytest.mark.parametrize("kind", ["TGA", "PCX", "ICO", "SGI", "EPS", "PDF"])
def test_other_formats_are_not_opened(kind: str) -> None:
    assert kind not in FORMATS
    with pytest.raises(DataError, match=r"a is not an image that can be read; .* none of PNG, JPEG, GIF"):
        decode(encoded(noise(), kind), "a", FORM)


def test_bad_images_are_named_together(tmp_path: Path) -> None:
    for i in range(4):
        write_png(tmp_path / f"cats/{i}.png")
        write_png(tmp_path / f"dogs/{i}.png")
    (tmp_path / "cats/2.png").write_bytes(b"no image")
    (tmp_path / "dogs/1.png").write_bytes(encoded(noise())[:-40])
    images = labelled_images(DataConfig(root=str(tmp_path.parent), train=(tmp_path.name,))).train.images
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(DataError, match=r"cats/2\.png is not an image.*dogs/1\.png cannot be decoded"):
            store(images, FORM, cache)
    assert not any((tmp_path / "cache").iterdir())


# idx files.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (idx(noise(3, 4, 4))[:-1], "says that it holds 3 x 4 x 4 bytes, and it holds 47; it may be incomplete"),
        (idx(noise(3, 4, 4)) + b"x", "says that it holds 3 x 4 x 4 bytes, and it holds more"),
        (idx(noise(3, 4, 4))[:10], "ends within its header"),
        (b"\0\0\x0d\x01" + bytes(8), "has numbers of the kind 0x0d in 1 dimensions; expected bytes"),
        (b"\0\0\x08\x09" + bytes(40), ".* in 9 dimensions; expected bytes, in 1 to 4"),
        (b"GIF89a", "is not an idx file: it begins with '47494638'"),
        (b"", "is not an idx file"),
    ],
)
def test_idx_files_must_be_as_long_as_they_say(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.idx").write_bytes(data)
    with pytest.raises(DataError, match=rf"a\.idx {message}"):
        read_idx(tmp_path / "a.idx")


def test_an_idx_file_that_claims_too_much_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.idx").write_bytes(b"\0\0\x08\x03" + b"\xff" * 12)
    with pytest.raises(TooLarge, match=r"a\.idx, which says that it holds 4,294,967,295 x .* needs about"):
        read_idx(tmp_path / "a.idx")


# Archives.


def tar_with(path: Path, **fields: object) -> Path:
    member = tarfile.TarInfo("cats/1.png")
    for name, value in fields.items():
        setattr(member, name, value)
    with tarfile.open(path, "w") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "../1.png"}, r"a\.tar:\.\./1\.png has a path that leads out of the archive"),
        ({"name": "/etc/1.png"}, r"a\.tar:/etc/1\.png has a path that leads out"),
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, r"a\.tar:cats/1\.png is a link or a special file"),
        ({"type": tarfile.LNKTYPE, "linkname": "b"}, "is a link or a special file"),
        ({"type": tarfile.FIFOTYPE}, "is a link or a special file"),
        ({"type": tarfile.CHRTYPE}, "is a link or a special file"),
    ],
)
def test_members_that_lead_out_of_a_tar_are_refused(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message + ".*pack it again"):
        open_archive(tar_with(tmp_path / "a.tar", **fields))


def test_members_that_lead_out_of_a_zip_are_refused(tmp_path: Path) -> None:
    for name in ("../1.png", "/etc/1.png", "cats/../../1.png"):
        path = write_archive(tmp_path / "a.zip", {name: b"x"})
        with pytest.raises(DataError, match=r"a\.zip:.*1\.png has a path that leads out of the archive"):
            open_archive(path)
    link = zipfile.ZipInfo("cats/1.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(DataError, match=r"b\.zip:cats/1\.png is a link or a special file"):
        open_archive(tmp_path / "b.zip")


def test_a_zip_bomb_is_refused_by_the_size_of_its_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cats/1.png", bytes(2**22))
    monkeypatch.setattr(archives, "MOST_BYTES", 2**20)
    with pytest.raises(DataError, match=r"a\.zip:cats/1\.png has 4,194,304 bytes, and an image may have 1,048,576"):
        open_archive(tmp_path / "a.zip").raw("cats/1.png")


def test_a_zip_member_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.png", bytes(2**20))
    data = (tmp_path / "a.zip").read_bytes().replace(struct.pack("<I", 2**20), struct.pack("<I", 100))
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.zip:1\.png cannot be read"):
        open_archive(tmp_path / "a.zip").raw("1.png")


def test_a_packed_tar_that_does_not_fit_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_archive(tmp_path / "a.tar.xz", {"cats/1.png": bytes(2**20)})
    monkeypatch.setattr(archives, "free_memory", lambda: 2**20)
    monkeypatch.setattr("regard.memory.free_memory", lambda: 2**20)
    with pytest.raises(TooLarge, match=r"a\.tar\.xz, unpacked, needs about .* unpack it into a folder"):
        open_archive(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz", "a.tgz", "a.zip"])
def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path, name: str) -> None:
    path = write_archive(tmp_path / name, {f"cats/{i}.png": encoded(noise(20, 20)) for i in range(3)})
    data = path.read_bytes()
    n_content = 3 * (512 + 1536) if name == "a.tar" else len(data)  # after it tar has zeros only
    for end in range(0, n_content, max(1, n_content // 40)):
        path.write_bytes(data[:end])
        with pytest.raises(DataError, match=rf"{path.name} cannot be read: .*; it may be incomplete"):
            open_archive(path)


def test_a_tar_with_a_broken_member_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.tar", {f"{i}.png": b"x" for i in range(3)})
    data = bytearray(path.read_bytes())
    data[1024 : 1024 + 512] = b"?" * 512  # the header of the second
    path.write_bytes(data)
    with pytest.raises(DataError, match="it breaks off after 1 files"):
        open_archive(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.zip"])
def test_flipped_bytes_of_an_archive_end_in_members_or_an_error_of_ours(tmp_path: Path, name: str) -> None:
    path = write_archive(tmp_path / name, {f"cats/{i}.png": bytes(100) for i in range(2)})
    data, draw = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        spoiled = bytearray(data)
        for place in draw.integers(0, min(len(data), 2560), 3):
            spoiled[place] ^= int(draw.integers(1, 256))
        path.write_bytes(spoiled)
        try:
            archive = open_archive(path)
            assert all(len(archive.raw(member)) <= 2**20 for member in archive.members)
        except DataError as error:
            assert name in str(error)


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.tar", {"1.png": b"x", "./1.png": b"y"})
    with pytest.raises(DataError, match=r"a\.tar:\./1\.png is in the archive twice"):
        open_archive(path)
