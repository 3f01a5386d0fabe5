"""RandAugment's operations on colors, for a batch in which every image has its own operation and amount.

Most of them give all pixels of one level the same new level: they are a table of 256 levels for each image and channel.
"""

from collections.abc import Callable

import torch
from torch import Tensor

WHITE = 255  # a pixel is a number from 0 to 1; a table knows 8 bits of it


def grayscale(colors: Tensor) -> Tensor:
    """The luma of ITU-R 601-2 (B, 1, ...) of red, green and blue (B, 3, ...); gray stays as it is."""
    if colors.shape[1] == 1:
        return colors
    red, green, blue = colors.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


# Tables: the levels (256), how many pixels have each (B, C, 256), and amounts (B, 1, 1) -> new levels (B, C, 256).


def autocontrast(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """The darkest level becomes 0 and the lightest 255; a plain image stays as it is."""
    darkest = torch.where(counts > 0, levels, WHITE).amin(-1, keepdim=True)
    lightest = torch.where(counts > 0, levels, 0).amax(-1, keepdim=True)
    spread = WHITE * (levels - darkest) / (lightest - darkest).clamp(min=1)
    return torch.where(lightest > darkest, spread, levels)


def equalize(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """A level becomes the share of the pixels that are darker: all levels are then about equally frequent.

    In whole numbers, as PIL does it, where the lightest level is not counted."""
    lightest = torch.where(counts > 0, levels, 0).amax(-1, keepdim=True)
    step = torch.floor(torch.where(levels < lightest, counts, 0).sum(-1, keepdim=True) / WHITE)
    darker = counts.cumsum(-1) - counts
    ranks = torch.floor((darker + torch.floor(step / 2)) / step.clamp(min=1))
    return torch.where(step > 0, ranks, levels)


def brightness(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """0: black; 1: the same image; above: lighter."""
    return (amounts * levels).expand_as(counts)


def contrast(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """0: the mean gray everywhere; 1: the same image; above: more contrast."""
    mean = grayscale((counts * levels).sum(-1, keepdim=True) / counts.sum(-1, keepdim=True))
    return (mean + amounts * (levels - mean)).expand_as(counts)


def posterize(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """The amount, rounded, is the number of low bits that become 0."""
    step = torch.exp2(amounts.round()).round()
    return (torch.floor(levels / step) * step).expand_as(counts)


def solarize(levels: Tensor, counts: Tensor, amounts: Tensor) -> Tensor:
    """Levels from the amount on are inverted."""
    return torch.where(levels < amounts, levels, WHITE - levels).expand_as(counts)


ColorTable = Callable[[Tensor, Tensor, Tensor], Tensor]
TABLES: dict[str, ColorTable] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "brightness": brightness,
    "contrast": contrast,
    "posterize": posterize,
    "solarize": solarize,
}


def blur(images: Tensor) -> Tensor:
    """The mean of each pixel, five times, and its eight neighbors; the border stays as it is  (PIL's SMOOTH)."""
    if min(images.shape[2:]) < 3:
        return images
    columns = images[..., :-2, :] + images[..., 1:-1, :] + images[..., 2:, :]
    squares = columns[..., :-2] + columns[..., 1:-1] + columns[..., 2:]
    blurred = images.clone()
    blurred[..., 1:-1, 1:-1] = (squares + 4 * images[..., 1:-1, 1:-1]) / 13
    return blurred


# What an amount of 0 leaves of an image; 1 leaves all of it, and more makes the difference larger.
PLAINER: dict[str, Callable[[Tensor], Tensor]] = {"color": grayscale, "sharpness": blur}


def recolor(images: Tensor, names: list[str], operations: Tensor, amounts: Tensor) -> Tensor:
    """Each of the images (B, C, height, width) by its own operation (B), a place in `names`, with its own amount (B).

    Operations that are not about colors leave an image as it is, bit for bit.
    """
    is_chosen = {name: (operations == place)[:, None, None] for place, name in enumerate(names)}
    plain = images
    for name, plainer in PLAINER.items():
        plain = torch.where(is_chosen[name][..., None], plainer(images), plain)
    blended = plain.lerp(images, amounts[:, None, None, None]).clamp(0, 1)
    levels = torch.arange(WHITE + 1, device=images.device, dtype=images.dtype)
    pixels = (images * WHITE).round().long().flatten(2)
    counts = images.new_zeros(*pixels.shape[:2], WHITE + 1)
    counts.scatter_add_(2, pixels, images.new_ones(()).expand_as(pixels))
    tables, has_table = counts, torch.zeros_like(operations, dtype=torch.bool)[:, None, None]
    for name, table in TABLES.items():
        tables = torch.where(is_chosen[name], table(levels, counts, amounts[:, None, None]), tables)
        has_table = has_table | is_chosen[name]
    looked_up = (tables.clamp(0, WHITE) / WHITE).gather(2, pixels).view_as(images)
    return torch.where(has_table[..., None], looked_up, blended)
