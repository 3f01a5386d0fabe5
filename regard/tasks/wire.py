"""How what is asked about travels as JSON: the type that a client sends, and what the verbs take instead of it."""

import base64
import binascii
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from regard.data.images.opening import open_image, read_header
from regard.errors import DataError
from regard.text.unicode import well_formed

MOST_PIXELS = 2**24  # of an image that a client sends: 4,096 x 4,096


@dataclass(frozen=True)
class Wire:
    """One text, image or history; `read` takes what was sent, and where it stands in the request."""

    kind: Any  # the type of the JSON value
    meaning: str  # in words
    read: Callable[[Any, str], Any]
    shown: Callable[[Any, int], str]  # in the record of an answer: the text itself, or the number of what was asked
    is_one: Callable[[Any], bool]  # whether a JSON value is one such thing, or else a list of them
    is_text: bool = False


def is_string(sent: object) -> bool:
    return isinstance(sent, str)


def is_table(sent: object) -> bool:
    return isinstance(sent, dict) or (isinstance(sent, list) and bool(sent) and all(is_row(row) for row in sent))


def is_row(sent: object) -> bool:
    return isinstance(sent, list) and not any(isinstance(cell, list | dict) for cell in sent)


def read_text(sent: object, where: str) -> str:
    if not isinstance(sent, str):
        raise DataError(f"{where}: expected a text")
    return well_formed(sent)


def read_image(sent: object, where: str) -> PIL.Image.Image:
    """An image file in base64, with or without `data:image/png;base64,` before it."""
    sent = read_text(sent, where)
    encoded = sent.partition(",")[2] if sent.startswith("data:") else sent
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(f"{where}: expected an image file in base64") from None
    size = read_header(io.BytesIO(data), where).size
    if size[0] * size[1] > MOST_PIXELS:
        raise DataError(f"{where}: an image may have {MOST_PIXELS:,} pixels; make it smaller")
    return open_image(data, where)[0]


def read_history(sent: Any, where: str) -> dict[str, list[Any]] | np.ndarray:
    """Columns by name, or rows of numbers."""
    if isinstance(sent, dict):
        return sent
    if not is_table(sent) or len({len(row) for row in sent}) > 1:
        raise DataError(f"{where}: expected columns by name, or rows of as many numbers each")
    return np.array(sent, np.float64)


TEXT = Wire(str, "a text", read_text, lambda text, number: text, is_string, is_text=True)
IMAGE = Wire(str, "an image file in base64", read_image, lambda image, number: str(number), is_string)
HISTORY = Wire(
    dict[str, list[str | float | None]] | list[list[float]],
    "columns by name, or rows of numbers",
    read_history,
    lambda history, number: str(number),
    is_table,
)
