"""Pixels: PIL, numpy and torch as oracles; forms; arrays that are refused."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from regard.data.images.pixels import FILTERS, PixelForm, decode, pixels_of
from regard.errors import ConfigError, DataError
from tests.data.images.drawing import encoded, noise

COLOR, GRAY = PixelForm(), PixelForm(channels=1)
SIZES = st.integers(1, 40)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_give_their_pixels(kind: str) -> None:
    color, gray = noise(), noise(channels=1)
    assert (decode(encoded(color, kind), "a", COLOR) == color).all()
    assert (decode(encoded(gray, kind), "a", GRAY) == gray[..., None]).all()
    assert (decode(encoded(gray, kind), "a", COLOR) == np.stack([gray] * 3, -1)).all()


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF"])
def test_other_formats_give_what_pil_gives(kind: str) -> None:
    data = encoded(noise(16, 24), kind)
    expected = np.asarray(pil(data).convert("RGB"))
    assert (decode(data, "a", COLOR) == expected).all()
    assert (decode(data, "a", GRAY)[..., 0] == np.asarray(pil(data).convert("RGB").convert("L"))).all()


def pil(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_exif_turns_are_applied(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(noise(8, 16), kind, exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(pil(data)).convert("RGB"))
    assert (decode(data, "a", COLOR) == expected).all()
    assert expected.shape == ((8, 16, 3) if orientation < 5 else (16, 8, 3))


def test_exif_that_cannot_be_read_turns_nothing() -> None:
    pixels = noise()
    assert (decode(encoded(pixels, exif=b"nothing of EXIF"), "a", COLOR) == pixels).all()


def test_what_is_transparent_is_white() -> None:
    pixels = noise(channels=4)
    alpha = pixels[..., 3:] / 255
    expected = pixels[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(decode(encoded(pixels), "a", COLOR) - expected).max() <= 1
    pixels[..., 3] = 0
    assert (decode(encoded(pixels), "a", COLOR) == 255).all()
    assert (decode(encoded(pixels), "a", GRAY) == 255).all()


def test_a_palette_with_a_transparent_color_is_white_there() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    for kind in ("PNG", "GIF"):
        assert pixels_of(saved(image, kind, transparency=1), COLOR).tolist() == [[[10, 20, 30], [255, 255, 255]]]
        assert pixels_of(saved(image, kind), COLOR).tolist() == [[[10, 20, 30], [40, 50, 60]]]


def saved(image: Image.Image, kind: str, **settings: object) -> Image.Image:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return Image.open(file)


def test_other_modes_become_eight_bits() -> None:
    deep = np.array([[0, 128, 129, 257, 65407, 65408, 65535]], np.uint16)
    for kind in ("PNG", "TIFF"):
        assert decode(encoded(deep, kind), "a", GRAY).flatten().tolist() == [0, 0, 1, 1, 255, 255, 255]
    bits = Image.fromarray(np.array([[0, 255, 255]], np.uint8)).convert("1")
    assert pixels_of(saved(bits, "PNG"), GRAY).flatten().tolist() == [0, 255, 255]
    cmyk = Image.new("CMYK", (2, 2), (0, 255, 255, 0))
    assert pixels_of(saved(cmyk, "TIFF"), COLOR)[0, 0].tolist() == [255, 0, 0]
    with_alpha = Image.new("LA", (2, 2), (0, 0))
    assert pixels_of(saved(with_alpha, "PNG"), GRAY).flatten().tolist() == [255] * 4


def test_floats_in_a_file_are_refused() -> None:
    with pytest.raises(DataError, match=r"a\.tif has pixels of the kind 'F'; save it with 8 or 16 bits"):
        decode(encoded(np.ones((2, 2), np.float32), "TIFF"), "a.tif", COLOR)


def test_an_animation_gives_its_first_frame() -> None:
    file = io.BytesIO()
    frames = [Image.new("RGB", (3, 2), color) for color in ("red", "blue")]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    assert decode(file.getvalue(), "a", COLOR)[0, 0].tolist() == [255, 0, 0]


# Forms.


@given(height=SIZES, width=SIZES, size=SIZES)
def test_fit_never_enlarges(height: int, width: int, size: int) -> None:
    pixels = pixels_of(np.zeros((height, width), np.uint8), PixelForm(channels=1, size=size))
    assert max(pixels.shape) == min(size, max(height, width))
    if max(height, width) <= size:
        assert pixels.shape == (height, width, 1)
    scale = size / max(height, width)
    assert all(
        abs(new - max(1, old * min(1, scale))) <= 0.5 for new, old in zip(pixels.shape, (height, width), strict=False)
    )


@given(
    height=SIZES,
    width=SIZES,
    size=SIZES,
    share=st.floats(0.2, 1),
    resize=st.sampled_from(["stretch", "crop", "crop_floor"]),
)
def test_stretch_and_crop_are_square(height: int, width: int, size: int, share: float, resize: str) -> None:
    form = PixelForm(size=size, resize=resize, crop_share=share)
    assert pixels_of(np.full((height, width), 9, np.uint8), form).shape == (size, size, 3)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (33, 47), (12, 13), (126, 61), (212, 80)])
def test_crop_is_the_middle_of_the_resized_image(name: str, shape: tuple[int, int]) -> None:
    pixels = noise(*shape)
    form = PixelForm(size=14, resize="crop", crop_share=0.875, filter=name)
    short, (height, width) = min(shape), shape
    scaled = Image.fromarray(pixels).resize((16 * width // short, 16 * height // short), FILTERS[name])
    left, top = round((scaled.width - 14) / 2), round((scaled.height - 14) / 2)
    expected = np.asarray(scaled.crop((left, top, left + 14, top + 14)))
    assert (pixels_of(pixels, form) == expected).all()


def test_a_sliver_is_not_blown_up() -> None:
    form = PixelForm(size=224, resize="crop")  # all of it would be 224 x 1,120,000
    assert pixels_of(np.zeros((5000, 1), np.uint8), form).shape == (224, 224, 3)


def test_stretch_is_pils_resize() -> None:
    pixels = noise(30, 20)
    expected = np.asarray(Image.fromarray(pixels).resize((8, 8), Image.Resampling.LANCZOS))
    assert (pixels_of(pixels, PixelForm(size=8, resize="stretch", filter="lanczos")) == expected).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 2}, r"channels must be 1 \(gray\) or 3"),
        ({"size": -1}, "size must not be negative"),
        ({"size": 100_000}, "size must be at most"),
        ({"resize": "zoom"}, "resize must be one of fit, stretch, crop, crop_floor, got 'zoom'"),
        ({"filter": "nearest"}, "filter must be one of bilinear, bicubic, lanczos"),
        ({"crop_share": 0.0}, "crop_share must be above 0"),
    ],
)
def test_forms_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PixelForm(**settings)  # type: ignore[arg-type]


# What may be given in Python.


def test_every_way_to_give_an_image_gives_the_same(tmp_path: Path) -> None:
    pixels = noise()
    path = tmp_path / "a.png"
    path.write_bytes(encoded(pixels))
    floats = (pixels / 255).astype(np.float32)
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    for picture in (
        path,
        str(path),
        Image.open(path),
        pixels,
        pixels.astype(np.uint16) * 257,
        floats,
        floats.astype(np.float64),
        tensor,
        tensor.float() / 255,
        tensor[:, :, :].double() / 255,
        pixels[::-1][::-1],
    ):
        assert (pixels_of(picture, COLOR) == pixels).all()
    assert (pixels_of(torch.from_numpy(pixels[..., 0]), GRAY)[..., 0] == pixels[..., 0]).all()
    assert (pixels_of(tensor[:1], GRAY)[..., 0] == pixels[..., 0]).all()
    assert (pixels_of(pixels[..., :1], COLOR) == pixels[..., :1]).all()
    assert pixels_of(np.array([[True, False]]), GRAY).flatten().tolist() == [255, 0]


def test_a_given_image_is_not_changed() -> None:
    image = Image.fromarray(noise(channels=4))
    before = np.asarray(image).copy()
    pixels_of(image, PixelForm(channels=1, size=3))
    assert image.mode == "RGBA" and (np.asarray(image) == before).all()


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((3, 9, 9), np.uint8), r"the array has the shape \(3, 9, 9\).*channels last: transpose\(1, 2, 0\)"),
        (np.zeros((2, 3, 9, 9), np.uint8), r"shape \(2, 3, 9, 9\); expected arrays \(height, width\)"),
        (np.zeros(9, np.uint8), r"shape \(9,\)"),
        (np.zeros((0, 9), np.uint8), "the array has no pixels: it is 9 x 0"),
        (np.zeros((9, 9), np.int64), "numbers of the kind int64; expected 8-bit"),
        (np.full((9, 9), 2.0), "floats from 2 to 2; expected 0 to 1: divide by 255"),
        (np.full((9, 9), np.nan), "floats from nan to nan; expected 0 to 1"),
        (np.array([["a"]]), "numbers of the kind <U1"),
        (torch.zeros(9, 9, 3), r"the tensor has the shape \(9, 9, 3\); expected"),
        (torch.zeros(3, 9, 9, dtype=torch.int32), "numbers of the kind int32"),
        (b"bytes", "an image must be a path, a PIL image, .*; got bytes"),
        (None, "got NoneType"),
        ("no/such.png", r"no file no/such\.png"),
        (".", "is a folder; name an image file in it"),
    ],
)
def test_what_is_not_an_image_is_refused(picture: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pixels_of(picture, COLOR)  # type: ignore[arg-type]
