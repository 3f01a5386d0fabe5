"""An image file is opened as untrusted: few formats, its size known first, and whole or refused."""

import io
from enum import IntFlag
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image
from PIL.Image import Transpose

from regard.errors import DataError

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # no other reader of PIL's runs
MOST_PIXELS = 2**26  # of an image: 8,192 x 8,192; PIL itself warns above 89 million
MOST_BYTES = 2**28  # of its file
DEEP = {"I;16", "I;16L", "I;16B", "I;16N"}  # 16 bits a pixel, gray
WHITE = (255, 255, 255, 255)
AGAIN = "it may be incomplete: copy or download it again, or take it out"
ORIENTATION = 0x0112  # the EXIF tag that says which side is up; 1: as it is
TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


class Traits(IntFlag):
    """What an image is in its file."""

    GRAY = 1
    COLOR = 2
    CMYK = 4
    ALPHA = 8
    DEEP = 16
    FRAMES = 32
    TURNED = 64
    EXIF = 128


DECISIONS = {
    Traits.CMYK: "CMYK image converted to red, green, blue",
    Traits.ALPHA: "image with transparency laid over white",
    Traits.DEEP: "16-bit image reduced to 8 bits",
    Traits.FRAMES: "animated or many-paged image: first frame read",
    Traits.TURNED: "image turned upright, as its EXIF data says",
    Traits.EXIF: "EXIF data cannot be read: image not turned",
}


def open_image(data: bytes, where: str) -> tuple[Image.Image, Traits]:
    """The image in these bytes, upright, in mode L or RGB."""
    if len(data) > MOST_BYTES:
        raise DataError(f"{where} has {len(data):,} bytes, and an image may have {MOST_BYTES:,}; make it smaller")
    if not data:
        raise DataError(f"{where} is an empty file; {AGAIN}")
    return settle(read_header(io.BytesIO(data), where), where)


def read_header(file: BinaryIO | Path, where: str) -> Image.Image:
    """Nothing is decoded yet."""
    try:
        return Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError:  # more than twice what PIL warns of
        raise too_large(where, "") from None
    except Exception as error:  # a reader of a broken header raises anything
        cause = "" if isinstance(error, Image.UnidentifiedImageError) else f" ({error})"
        hint = f"it may be incomplete, or none of {', '.join(FORMATS)}: copy or convert it, or take it out"
        raise DataError(f"{where} is not an image that can be read{cause}; {hint}") from None


def image_size(path: Path) -> tuple[int, int]:
    """Width and height, from the header."""
    with read_header(path, str(path)) as image:
        return image.size


def is_animated(image: Image.Image) -> bool:
    try:
        image.seek(1)
    except EOFError:
        return False
    image.seek(0)
    return True


def settle(image: Image.Image, where: str) -> tuple[Image.Image, Traits]:
    """Loaded, upright, without transparency, 8 bits: mode L or RGB."""
    if not image.width or not image.height:
        raise DataError(f"{where} has no pixels: it is {image.width} x {image.height}; take it out")
    if image.width * image.height > MOST_PIXELS:
        raise too_large(where, f" of {image.width:,} x {image.height:,}")
    try:
        has_frames = image.format != "MPO" and is_animated(image)  # MPO: a photo and its preview
        image.load()
        flat, traits = flatten(image)
    except Exception as error:  # a decoder of broken data raises anything
        raise DataError(f"{where} cannot be decoded ({error or type(error).__name__}); {AGAIN}") from None
    if flat is None:
        raise DataError(f"{where} has pixels of the kind {image.mode!r}; save it with 8 or 16 bits, then try again")
    turn, unreadable = turn_of(image)
    traits |= (Traits.FRAMES if has_frames else 0) | (Traits.TURNED if turn else 0) | unreadable
    return flat if turn is None else flat.transpose(turn), traits


def turn_of(image: Image.Image) -> tuple[Transpose | None, Traits]:
    """What brings it upright; EXIF data that cannot be read turns nothing."""
    try:
        return TURNS.get(image.getexif().get(ORIENTATION, 1)), Traits(0)
    except Exception:  # a reader of broken data raises anything; the pixels are whole
        return None, Traits.EXIF


def flatten(image: Image.Image) -> tuple[Image.Image | None, Traits]:
    """In mode L or RGB, what is transparent over white; None for 32-bit pixels, whose range nobody knows."""
    mode = image.mode
    if mode in DEEP or (mode == "I" and image.format in ("PNG", "PPM")):
        return Image.fromarray(to_8_bits(np.asarray(image))), Traits.GRAY | Traits.DEEP
    if mode in ("I", "F"):
        return None, Traits(0)
    is_gray = mode in ("1", "L", "LA", "La")
    has_alpha = mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info
    traits = Traits.GRAY if is_gray else Traits.CMYK if mode == "CMYK" else Traits.COLOR
    if has_alpha:
        seen = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", seen.size, WHITE), seen)
        traits |= Traits.ALPHA
    wanted = "L" if is_gray else "RGB"
    return image if image.mode == wanted else image.convert(wanted), traits


def to_8_bits(deep: np.ndarray) -> np.ndarray:
    """0 ... 65,535 → 0 ... 255, to the nearest."""
    return ((deep.astype(np.int64).clip(0, 65535) + 128) // 257).astype(np.uint8)


def too_large(where: str, size: str) -> DataError:
    return DataError(f"{where} is an image{size} of more than {MOST_PIXELS:,} pixels; make it smaller or take it out")
