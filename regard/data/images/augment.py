"""Augmentation: how training changes images, so that no image comes twice in the same form.

Chance is drawn on the host, a function of (seed, epoch, place of the image); pixels change on the device, all at once.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_most, not_negative, share
from regard.data.batching.batch import TensorSet
from regard.data.batching.noise import chances, keys
from regard.data.images.colors import recolor
from regard.data.images.warping import MAPS, crop, mirror, move, warp

STRONGEST = 30
ZOOMED_ASPECT = 4 / 3  # at most, and 3 / 4 at least, of a part to that of the image
ERASED_AREA, ERASED_ASPECT = (0.02, 0.33), 1 / 0.3  # Zhong et al. 2020, section 4.1, and torchvision's largest area


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """How images change in training; by default they do not."""

    shift: int = 0  # images are moved by up to so many pixels in each direction; what comes from outside is black
    zoom: float = 0.0  # a random part, 1 - `zoom` of the area to all of it, is stretched to the size of the image
    flip: float = 0.0  # the chance that an image is mirrored, left to right
    operations: int = 0  # RandAugment: so many random operations on each image, such as `rotate` and `equalize`
    strength: float = 9.0  # how strong these operations are, from 0 to 30
    erase: float = 0.0  # the chance that a rectangle, 2 % to 33 % of the area, is replaced by noise
    mixup: float = 0.0  # alpha of Beta(alpha, alpha), the weight of an image that is mixed with another; 0: off
    cutmix: float = 0.0  # alpha, likewise, for a rectangle from another image; with `mixup`, half of the batches each

    def __post_init__(self) -> None:
        not_negative(self, "shift", "flip", "operations", "strength", "erase", "mixup", "cutmix")
        at_most(self, 1, "flip", "erase")
        at_most(self, STRONGEST, "strength")
        share(self, "zoom")

    @property
    def is_on(self) -> bool:
        return any((self.shift, self.zoom, self.flip, self.operations, self.erase, self.mixup, self.cutmix))


class Amount(NamedTuple):
    """How much of an operation: least + more · strength / 30; if it is signed, minus is as likely as plus."""

    least: float = 0.0
    more: float = 0.0
    is_signed: bool = False


# Cubuk et al. 2020, section 3.1; the amounts are AutoAugment's (Cubuk et al. 2019, table 6), as in torchvision.
OPERATIONS: dict[str, Amount] = {
    "identity": Amount(),
    "autocontrast": Amount(),
    "equalize": Amount(),
    "brightness": Amount(1, 0.9, is_signed=True),
    "color": Amount(1, 0.9, is_signed=True),
    "contrast": Amount(1, 0.9, is_signed=True),
    "sharpness": Amount(1, 0.9, is_signed=True),
    "posterize": Amount(0, 4),  # bits
    "solarize": Amount(255, -255),  # the level
    "rotate": Amount(0, 30, is_signed=True),  # degrees
    "shear_x": Amount(0, 0.3, is_signed=True),
    "shear_y": Amount(0, 0.3, is_signed=True),
    "translate_x": Amount(0, 150 / 331, is_signed=True),  # of the width
    "translate_y": Amount(0, 150 / 331, is_signed=True),
}
NAMES = list(OPERATIONS)


@dataclass(frozen=True)
class DrawnChanges(TensorSet):
    """What becomes of each of B images.  A second axis counts how often a thing is done; it is 0 for what is off."""

    maps: Tensor  # B (0 or 1) 2 3, where the pixels come from
    operations: Tensor  # B `operations`, each a place in NAMES
    amounts: Tensor  # B `operations`
    erased: Tensor  # B (0 or 1) 4, a rectangle: top, bottom, left and right, in pixels
    noise: Tensor  # B (0 or 1), the key of the noise in it
    mixed: Tensor  # B (0 or 1) 4, the rectangle in which an image is mixed with its partner
    kept: Tensor  # B (0 or 1), the weight of the image itself in it
    share: Tensor  # B, the share of the image's own label; the rest is of its partner
    partner: Tensor  # B, which image of the batch it is mixed with


def draw(config: Augmentation, seed: int, epoch: int, places: np.ndarray, sizes: np.ndarray) -> DrawnChanges:
    """Chance for the images at these places of the data (B), which have these heights and widths (B, 2).

    The draws of an image are a function of (seed, epoch, place), whatever else is in the batch.  Mixing belongs to the
    batch, and is a function of (seed, epoch, first place); those that are mixed have one size.
    """
    own = keys(seed, epoch, places)
    moving, erasing, choosing = np.split(chances(own, 7 + 6 + 2 * config.operations).T, [7, 7 + 6])
    operations, amounts = draw_operations(config, choosing)
    maps = draw_maps(config, moving, operations, amounts, sizes)
    erased = draw_rectangles(erasing[:4], sizes) * (erasing[4] < config.erase)[:, None]
    noise = np.floor(erasing[5] * 2**31)
    partner, mixed, kept = draw_mixing(config, ~own[:1], sizes)  # a key that no image has
    n_maps = int(any((config.shift, config.zoom, config.flip, config.operations)))
    n_erased, n_mixed = int(config.erase > 0), int(config.mixup > 0 or config.cutmix > 0)
    return DrawnChanges(
        maps=torch.from_numpy(maps[:, None, :2][:, :n_maps].astype(np.float32)),
        operations=torch.from_numpy(operations.T.copy()),
        amounts=torch.from_numpy(amounts.T.astype(np.float32)),
        erased=torch.from_numpy(erased[:, None][:, :n_erased]),
        noise=torch.from_numpy(noise[:, None][:, :n_erased].astype(np.int32)),
        mixed=torch.from_numpy(mixed[:, None][:, :n_mixed]),
        kept=torch.from_numpy(kept[:, None][:, :n_mixed].astype(np.float32)),
        share=torch.from_numpy((1 - (1 - kept) * areas_of(mixed) / sizes.prod(1)).astype(np.float32)),
        partner=torch.from_numpy(partner),
    )


def draw_operations(config: Augmentation, lots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The operations of each image and their amounts (operations, B); any may come twice."""
    operations = (lots[::2] * len(NAMES)).astype(np.int64)
    least, more, is_signed = (np.array(column) for column in zip(*OPERATIONS.values(), strict=True))
    sign = np.where(is_signed[operations] & (lots[1::2] < 0.5), -1, 1)
    return operations, least[operations] + sign * more[operations] * (config.strength / STRONGEST)


def draw_maps(
    config: Augmentation, lots: np.ndarray, operations: np.ndarray, amounts: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """All that moves the pixels of each image, as one map (B, 3, 3)."""
    area, aspect, flip = lots[:3]
    shift_y, shift_x = np.floor(lots[3:5] * (2 * config.shift + 1)) - config.shift
    part = sides(1 - config.zoom * area, aspect, ZOOMED_ASPECT)
    maps = crop(part, lots[5:7], sizes) @ move(shift_x, shift_y) @ mirror(flip < config.flip)
    for operation, amount in zip(operations, amounts, strict=True):
        for name, map_of in MAPS.items():
            is_chosen = (operation == NAMES.index(name))[:, None, None]
            maps = np.where(is_chosen, maps @ map_of(amount, sizes), maps)
    return maps


def draw_rectangles(lots: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """What may be erased of each image: top, bottom, left and right (B, 4)."""
    least, most = ERASED_AREA
    lengths = np.maximum(np.rint(sides(least + (most - least) * lots[0], lots[1], ERASED_ASPECT) * sizes.T), 1)
    starts = np.floor(lots[2:] * (sizes.T - lengths + 1))
    return as_rectangles(starts, starts + lengths)


def sides(areas: np.ndarray, lots: np.ndarray, aspect: float) -> np.ndarray:
    """The height and width (2, B) of rectangles with these areas, all as shares of the image's.

    The logarithm of height / width is uniform, up to that of `aspect` in both directions, but never more than fits: the
    authors draw again what does not fit, which makes small areas more likely.
    """
    ratio = np.minimum(aspect, 1 / areas) ** (2 * lots - 1)
    return np.sqrt(areas * np.stack([ratio, 1 / ratio]))


def as_rectangles(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """From (y, x) on to before (y, x), each (2, B): top, bottom, left and right (B, 4)."""
    return np.stack([starts[0], ends[0], starts[1], ends[1]], axis=1).astype(np.int64)


def areas_of(rectangles: np.ndarray) -> np.ndarray:
    return (rectangles[:, 1] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 2])


def draw_mixing(config: Augmentation, key: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Partners (B), the rectangles in which they are mixed (B, 4), and the weight of the image itself there (B).

    Mixup (Zhang et al. 2018) mixes all of an image; in the rectangle of CutMix (Yun et al. 2019) is only the partner.
    """
    n, whole = len(sizes), as_rectangles(np.zeros_like(sizes.T), sizes.T)
    lots = chances(key, 5 + n)[0]
    is_cut = config.cutmix > 0 and (config.mixup == 0 or lots[0] < 0.5)
    alpha = config.cutmix if is_cut else config.mixup
    if alpha == 0:
        return np.arange(n), whole, np.ones(n)
    partner, order = np.empty(n, np.int64), np.argsort(lots[5:], kind="stable")
    partner[order] = np.roll(order, 1)  # around a circle: no image is its own partner
    kept = symmetric_beta(alpha, lots[1], lots[2])
    if not is_cut:
        return partner, whole, np.full(n, kept)
    half = np.floor(np.sqrt(1 - kept) * sizes.T / 2)
    center = np.floor(lots[3:5, None] * sizes.T)
    return partner, as_rectangles(np.maximum(center - half, 0), np.minimum(center + half, sizes.T)), np.zeros(n)


def symmetric_beta(alpha: float, lot: float, angle: float) -> float:
    """Beta(alpha, alpha) from two uniform numbers  (Devroye 1996, "Random variate generation in one line of code")."""
    t = math.sqrt(math.expm1(min(-math.log1p(-lot) / alpha, 700))) * math.cos(2 * math.pi * angle)
    return 0.5 + 0.5 * math.sin(math.atan(t))


def augment(images: Tensor, draws: DrawnChanges) -> Tensor:
    """Images (B, C, height, width), gray or in color, from 0 to 1, all of one size, each changed as it was drawn."""
    for maps in draws.maps.unbind(1):
        images = warp(images, maps)
    for operations, amounts in zip(draws.operations.unbind(1), draws.amounts.unbind(1), strict=True):
        images = recolor(images, NAMES, operations, amounts)
    for rectangles, key in zip(draws.erased.unbind(1), draws.noise.unbind(1), strict=True):
        images = torch.where(is_within(rectangles, images), noise_like(images, key), images)
    return images


def mix(images: Tensor, draws: DrawnChanges) -> Tensor:
    """Images (B, C, height, width), all of one size, each mixed with its partner as it was drawn."""
    for rectangles, kept in zip(draws.mixed.unbind(1), draws.kept.unbind(1), strict=True):
        weights = kept[:, None, None, None]
        blended = weights * images + (1 - weights) * images[draws.partner]
        images = torch.where(is_within(rectangles, images), blended, images)
    return images


def is_within(rectangles: Tensor, images: Tensor) -> Tensor:
    """Which pixels are in the image's rectangle (B, 1, height, width)."""
    top, bottom, left, right = rectangles[:, :, None, None, None].unbind(1)
    y = torch.arange(images.shape[2], device=images.device)[:, None]
    x = torch.arange(images.shape[3], device=images.device)
    return (y >= top) & (y < bottom) & (x >= left) & (x < right)


def noise_like(images: Tensor, keys: Tensor) -> Tensor:
    """Uniform noise from 0 to 1, a function of each image's key (B): a hash of 32 bits, the same on every device."""
    n_pixels = images[0].numel()
    bits = keys[:, None] + torch.arange(1, n_pixels + 1, device=images.device, dtype=torch.int32) * 0x61C88647
    for _ in range(2):
        bits = (bits ^ (bits >> 16)) * 0x45D9F3B
    return ((bits >> 8) & 0xFFFFFF).to(images.dtype).mul(2.0**-24).view_as(images)
