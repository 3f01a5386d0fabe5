"""What some of the images of a data set look like: their size, whether they have color, how bright they are."""

from dataclasses import dataclass

import numpy as np

from regard.data.images.examples import Images
from regard.data.images.pixels import PixelForm
from regard.data.images.store import decode_image
from regard.errors import DataError

N_IMAGES = 200  # looked at, spread over all


@dataclass(frozen=True)
class Looks:
    size: int  # pixels of the longest side of most images
    is_even: bool  # all are of one size
    channels: int  # 1: gray
    mean: tuple[float, ...]  # of the pixels, from 0 to 1, for each channel
    deviation: tuple[float, ...]


def look_over(images: Images) -> Looks:
    """Raises the error of an image that cannot be read."""
    places = np.unique(np.linspace(0, len(images) - 1, N_IMAGES).astype(int))
    pictures = []
    for place in places.tolist():
        decoded = decode_image(images, place, PixelForm(channels=3))
        if isinstance(decoded, DataError):
            raise decoded
        pictures.append(decoded[0])
    shapes = {picture.shape for picture in pictures}
    is_gray = all((picture == picture[..., :1]).all() for picture in pictures)
    pixels = np.concatenate([picture.reshape(-1, 3) for picture in pictures]) / 255
    n = 1 if is_gray else 3
    mean, deviation = pixels.mean(0)[:n], np.maximum(pixels.std(0)[:n], 0.01)
    sides = sorted(max(picture.shape[:2]) for picture in pictures)
    return Looks(sides[len(sides) // 2], len(shapes) == 1, n, rounded(mean), rounded(deviation))


def rounded(numbers: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(number), 3) for number in numbers)
