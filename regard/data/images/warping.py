"""Moving the pixels of images: any number of changes are one affine map, and an image is sampled once.

A map goes from where a pixel will stand to where it comes from, both as (x, y, 1) with the image's center at 0 and one
pixel as the unit.  Maps are (B, 3, 3); the product `a @ b` does first what `a` says, then what `b` says.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def affine(xx: np.ndarray, xy: np.ndarray, x: np.ndarray, yx: np.ndarray, yy: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The maps with these entries, each one number for each image."""
    zeros, ones = np.zeros_like(xx), np.ones_like(xx)
    return np.stack([xx, xy, x, yx, yy, y, zeros, zeros, ones], axis=-1).reshape(-1, 3, 3)


def move(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """So many pixels to the left, and up."""
    zeros, ones = np.zeros_like(x), np.ones_like(x)
    return affine(ones, zeros, x, zeros, ones, y)


def mirror(is_mirrored: np.ndarray) -> np.ndarray:
    """Left to right."""
    zeros, ones = np.zeros(len(is_mirrored)), np.ones(len(is_mirrored))
    return affine(np.where(is_mirrored, -1.0, 1.0), zeros, zeros, zeros, ones, zeros)


def crop(sides: np.ndarray, lots: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Rectangles with these shares of the heights and widths become whole images; 0 .. 1 say where they lie (2, B)."""
    height, width = sides
    y, x = (lots - 0.5) * (1 - sides) * sizes.T
    zeros = np.zeros_like(x)
    return affine(width, zeros, x, zeros, height, y)


# RandAugment's: amounts (B) and the sizes of the images (B, 2) -> maps.


def rotate(amounts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """By so many degrees, counterclockwise."""
    zeros, cos, sin = np.zeros_like(amounts), np.cos(np.radians(amounts)), np.sin(np.radians(amounts))
    return affine(cos, -sin, zeros, sin, cos, zeros)


def shear_x(amounts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Every row to the left, by its distance from the top."""
    zeros, ones = np.zeros_like(amounts), np.ones_like(amounts)
    return affine(ones, amounts, amounts * sizes[:, 0] / 2, zeros, ones, zeros)


def shear_y(amounts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Every column up, by its distance from the left."""
    zeros, ones = np.zeros_like(amounts), np.ones_like(amounts)
    return affine(ones, zeros, zeros, amounts, ones, amounts * sizes[:, 1] / 2)


def translate_x(amounts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """To the left, by a share of the width, in whole pixels."""
    return move(np.rint(amounts * sizes[:, 1]), np.zeros_like(amounts))


def translate_y(amounts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Up, by a share of the height, in whole pixels."""
    return move(np.zeros_like(amounts), np.rint(amounts * sizes[:, 0]))


MakeMap = Callable[[np.ndarray, np.ndarray], np.ndarray]
MAPS: dict[str, MakeMap] = {
    "rotate": rotate,
    "shear_x": shear_x,
    "shear_y": shear_y,
    "translate_x": translate_x,
    "translate_y": translate_y,
}


def warp(images: Tensor, maps: Tensor) -> Tensor:
    """The images (B, C, height, width) by their maps (B, 2, 3), bilinear, and black where they come from outside.

    A pixel that comes from the very place of another is its exact copy: normalized coordinates are rounded, and of
    bilinear weights that are almost 0 and 1 some of the neighbors would remain.
    """
    height, width = images.shape[2:]
    y = torch.arange(height, device=images.device, dtype=maps.dtype)[:, None] - (height - 1) / 2
    x = torch.arange(width, device=images.device, dtype=maps.dtype) - (width - 1) / 2
    by_x, by_y, by_1 = maps[..., None, None].unbind(2)  # B 2 1 1 each
    from_x, from_y = (by_x * x + by_y * y + by_1).unbind(1)  # B height width
    is_inside = (from_x.abs() <= width / 2) & (from_y.abs() <= height / 2)
    is_pixel = is_whole(from_x + (width - 1) / 2) & is_whole(from_y + (height - 1) / 2)
    grid = torch.stack([from_x * (2 / width), from_y * (2 / height)], dim=-1)
    copied, blended = (
        F.grid_sample(images, grid, mode=mode, padding_mode="border", align_corners=False)
        for mode in ("nearest", "bilinear")
    )
    return torch.where(is_pixel[:, None], copied, blended) * is_inside[:, None]


def is_whole(numbers: Tensor) -> Tensor:
    return numbers == numbers.round()
