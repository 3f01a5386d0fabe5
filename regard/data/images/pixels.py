"""Pixels enter here: files, bytes, PIL images and arrays become arrays (H, W, C) of 8-bit numbers."""

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from PIL.Image import Resampling

from regard.checks import at_most, not_negative, one_of, positive_share
from regard.data.files.reading import read_bytes
from regard.data.images.opening import MOST_BYTES, MOST_PIXELS, Traits, open_image, settle, to_8_bits
from regard.errors import ConfigError, DataError

Picture = str | Path | PIL.Image.Image | np.ndarray | torch.Tensor  # what may be given in Python
FILTERS = {"bilinear": Resampling.BILINEAR, "bicubic": Resampling.BICUBIC, "lanczos": Resampling.LANCZOS}
MODES = {1: "L", 3: "RGB"}
ARRAYS = "arrays (height, width) or (height, width, channels), tensors (channels, height, width) with 1 to 4 channels"


@dataclass(frozen=True, kw_only=True)
class Resizing:
    """How images are brought to the size in which a model reads them."""

    size: int = 0  # pixels; 0: as they are
    # `fit`: the longest side becomes at most `size` (never enlarged); `stretch`: both sides become `size`;
    # `crop`: the shortest side becomes size / crop_share, then the middle size x size; `crop_floor`: the same, and a
    # middle that lies between two pixels begins at the lower one (transformers), not at the even one (torchvision)
    resize: str = "fit"
    crop_share: float = 1.0  # of `crop`: how much of the shortest side is kept
    filter: str = "bicubic"  # `bilinear`, `bicubic` or `lanczos`, antialiased

    def __post_init__(self) -> None:
        not_negative(self, "size")
        at_most(self, 8192, "size")
        one_of(self, RESIZES, "resize")
        one_of(self, FILTERS, "filter")
        positive_share(self, "crop_share")

    @property
    def shortest(self) -> int:
        """The shortest side of an image before its middle is cut out."""
        return int(self.size / self.crop_share)

    def form(self, channels: int) -> "PixelForm":
        return PixelForm(
            channels=channels, size=self.size, resize=self.resize, crop_share=self.crop_share, filter=self.filter
        )


@dataclass(frozen=True, kw_only=True)
class PixelForm(Resizing):
    """The same, and how many numbers a pixel has."""

    channels: int = 3  # 1: gray, 3: red, green, blue

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.channels not in MODES:
            raise ConfigError(f"channels must be 1 (gray) or 3 (red, green, blue), got {self.channels!r}")


def decode(data: bytes, where: str, form: PixelForm) -> np.ndarray:
    """The pixels (H, W, C) of an image file, given as its bytes."""
    return in_form(open_image(data, where)[0], form)


def pixels_of(picture: Picture, form: PixelForm, where: str = "") -> np.ndarray:
    """The pixels (H, W, C) of a file, a PIL image, an array or a tensor."""
    if isinstance(picture, str | Path):
        return decode(read_image_file(Path(picture)), where or str(picture), form)
    if isinstance(picture, PIL.Image.Image):
        return in_form(settle(picture, where or "the image")[0], form)
    if isinstance(picture, torch.Tensor):
        picture = channels_last(picture, where or "the tensor")
    if isinstance(picture, np.ndarray):
        return array_in_form(to_bytes(picture, where or "the array"), form, where or "the array")[0]
    kinds = f"a path, a PIL image, {ARRAYS}"
    raise DataError(f"{where or 'an image'} must be {kinds}; got {type(picture).__name__}")


def pictures_of(value: object, where: str) -> list[Picture]:
    """One picture, or those of a list; an array or tensor of four dimensions holds several."""
    if isinstance(value, np.ndarray | torch.Tensor) and value.ndim > 3:
        return list(value)
    if isinstance(value, Picture):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | Mapping | Set):
        raise DataError(f"{where}: expected an image or a list of images, got {type(value).__name__}")
    pictures = list(value)
    for place, picture in enumerate(pictures):
        if not isinstance(picture, Picture):
            kinds = "paths, PIL images, arrays or tensors"
            raise DataError(f"{where}: expected {kinds}, got {type(picture).__name__} at place {place}")
    return pictures


def name_of(picture: Picture) -> str:
    """What people call it: the name of its file, if it has one."""
    return Path(picture).name if isinstance(picture, str | Path) else "an image"


def read_image_file(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"{path} is a folder; name an image file in it")
    return read_bytes(path, MOST_BYTES + 1)


# Arrays.


def channels_last(tensor: torch.Tensor, where: str) -> np.ndarray:
    """(C, H, W) → (H, W, C); (H, W) stays."""
    if tensor.ndim == 3 and tensor.shape[0] in (1, 2, 3, 4):
        tensor = tensor.permute(1, 2, 0)
    elif tensor.ndim != 2:
        raise DataError(f"{where} has the shape {tuple(tensor.shape)}; expected {ARRAYS}")
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def to_bytes(array: np.ndarray, where: str) -> np.ndarray:
    """8-bit numbers as they are, 16-bit ones scaled, and those from 0 to 1 times 255."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        return to_8_bits(array)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if not np.issubdtype(array.dtype, np.floating):
        kinds = "8-bit (uint8) or 16-bit (uint16) numbers, or floats from 0 to 1"
        raise DataError(f"{where} has numbers of the kind {array.dtype}; expected {kinds}")
    if array.size and not ((array >= 0) & (array <= 1)).all():
        span = f"{array.min():g} to {array.max():g}"
        raise DataError(f"{where} has floats from {span}; expected 0 to 1: divide by 255, or undo a normalization")
    return np.rint(array * 255.0).astype(np.uint8)


def array_in_form(array: np.ndarray, form: PixelForm, where: str) -> tuple[np.ndarray, Traits]:
    """(H, W) or (H, W, 1 to 4), 8-bit, in the wanted form."""
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[-1] in (2, 3, 4)):
        hint = "; numpy arrays have their channels last: transpose(1, 2, 0)" if array.shape[:1] in ((1,), (3,)) else ""
        raise DataError(f"{where} has the shape {array.shape}; expected {ARRAYS}{hint}")
    if form.size == 0 and array.size and array.shape[2:] == (() if form.channels == 1 else (3,)):  # as it is
        return array.reshape(*array.shape[:2], form.channels), Traits.GRAY if form.channels == 1 else Traits.COLOR
    image, traits = settle(PIL.Image.fromarray(np.ascontiguousarray(array)), where)
    return in_form(image, form), traits


# Forms.


def in_form(image: PIL.Image.Image, form: PixelForm) -> np.ndarray:
    """An image of mode L or RGB as (H, W, C)."""
    mode = MODES[form.channels]
    image = image if image.mode == mode else image.convert(mode)
    image = RESIZES[form.resize](image, form) if form.size else image
    return np.asarray(image).reshape(image.height, image.width, form.channels)


def fit(image: PIL.Image.Image, form: PixelForm) -> PIL.Image.Image:
    longest = max(image.size)
    if longest <= form.size:
        return image
    width, height = (max(1, round(side * form.size / longest)) for side in image.size)
    return image.resize((width, height), FILTERS[form.filter])


def stretch(image: PIL.Image.Image, form: PixelForm) -> PIL.Image.Image:
    return image.resize((form.size, form.size), FILTERS[form.filter])


def crop(image: PIL.Image.Image, form: PixelForm, rounded: Callable[[float], int] = round) -> PIL.Image.Image:
    """The middle of the resized image, rounded as torchvision does, so that its models see the pixels that they know.

    All of it is resized: of a part alone PIL may take its two passes in the other order, and it rounds between them.
    Of a sliver only the middle is computed: 1 x 8,000 pixels would become a band of millions.
    """
    shortest = min(image.size)
    width, height = (int(form.shortest * side / shortest) for side in image.size)
    left, top = (rounded((side - form.size) / 2) for side in (width, height))
    middle = (left, top, left + form.size, top + form.size)
    if width * height <= MOST_PIXELS:
        return image.resize((width, height), FILTERS[form.filter]).crop(middle)
    across, down = image.width / width, image.height / height
    box = (middle[0] * across, middle[1] * down, middle[2] * across, middle[3] * down)
    return image.resize((form.size, form.size), FILTERS[form.filter], box)


def crop_floor(image: PIL.Image.Image, form: PixelForm) -> PIL.Image.Image:
    return crop(image, form, math.floor)


RESIZES = {"fit": fit, "stretch": stretch, "crop": crop, "crop_floor": crop_floor}
