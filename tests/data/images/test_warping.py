"""Pixels that move: exact copies where nothing is between pixels, PIL's everywhere else, and one map for several."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from regard.data.images.augment import NAMES, OPERATIONS, Augmentation, augment, draw, draw_maps
from regard.data.images.warping import MAPS, warp
from tests.data.images.photos import as_pil, as_tensor, photo, random_images


def pil_affine(image: Image.Image, *entries: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, entries, Image.Resampling.BILINEAR)


BY_PIL: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "rotate": lambda image, degrees: image.rotate(degrees, Image.Resampling.BILINEAR),
    "shear_x": lambda image, level: pil_affine(image, 1, level, 0, 0, 1, 0),
    "shear_y": lambda image, level: pil_affine(image, 1, 0, 0, level, 1, 0),
    "translate_x": lambda image, share: pil_affine(image, 1, 0, round(share * image.width), 0, 1, 0),
    "translate_y": lambda image, share: pil_affine(image, 1, 0, 0, 0, 1, round(share * image.height)),
}


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("size", [(28, 28), (32, 32), (33, 7), (1, 50)])
def test_shifts_and_flips_are_exact_copies(size: tuple[int, int], n_channels: int) -> None:
    images, (height, width) = random_images(64, n_channels, size), size
    draws = draw(Augmentation(shift=4, flip=0.5), 7, 3, np.arange(64), np.tile(size, (64, 1)))
    padded, moved = np.pad(images.numpy(), [(0, 0), (0, 0), (4, 4), (4, 4)]), augment(images, draws).numpy()
    for i, ((flip, _, x), (_, _, y)) in enumerate(draws.maps[:, 0].tolist()):
        top, left = 4 + int(y), 4 + int(x)
        expected = padded[i, :, top : top + height, left : left + width]
        assert np.array_equal(moved[i], expected[..., ::-1] if flip < 0 else expected)


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("strength", [-26, -9, 4, 9])
def test_moves_are_those_of_pil(name: str, strength: float, n_channels: int) -> None:
    image, amount = photo(n_channels), OPERATIONS[name].more * strength / 30
    maps = torch.from_numpy(MAPS[name](np.array([amount]), np.array([image.shape[1:]])))
    moved = warp(image[None], maps[:, :2].float())[0]
    differs = (moved - as_tensor(BY_PIL[name](as_pil(image), amount))).abs() > 2 / 255
    assert differs.double().mean() < 0.005  # at the very edge, rounding decides what is inside
    assert (moved - image).abs().mean() > 0.02


@pytest.mark.parametrize("order", [("rotate", "translate_x"), ("translate_x", "rotate"), ("shear_x", "rotate")])
def test_several_moves_are_one_map_in_the_order_drawn(order: tuple[str, ...]) -> None:
    def in_turn(names: tuple[str, ...]) -> Tensor:
        moved = as_pil(image)
        for name in names:
            moved = BY_PIL[name](moved, amounts[name])
        return as_tensor(moved)

    y, x = np.mgrid[:40, :40] / 40
    image = torch.from_numpy(0.5 + 0.25 * np.sin(5 * x + 2 * y) + 0.25 * np.cos(7 * y * x))[None].float()
    amounts = {"rotate": 25.0, "shear_x": -0.3, "translate_x": 0.15}
    operations = np.array([[NAMES.index(name)] for name in order])
    drawn = np.array([[amounts[name]] for name in order])
    maps = draw_maps(Augmentation(operations=2), np.full((7, 1), 0.5), operations, drawn, np.array([[40, 40]]))
    moved = warp(image[None], torch.from_numpy(maps[:, :2]).float())[0]
    inner = (slice(None), slice(12, 28), slice(12, 28))  # what was never outside
    assert (moved - in_turn(order))[inner].abs().max() < 3 / 255
    assert (moved - in_turn(order[::-1]))[inner].abs().max() > 8 / 255


def test_a_zoomed_part_lies_within_the_image() -> None:
    """And its area and aspect are those that were asked for."""
    n, size = 20_000, (20, 30)
    draws = draw(Augmentation(zoom=0.6), 7, 3, np.arange(n), np.tile(size, (n, 1)))
    (width, x), (height, y) = draws.maps[:, 0, 0, [0, 2]].T, draws.maps[:, 0, 1, [1, 2]].T
    assert (x.abs() + width * 15 <= 15 + 1e-4).all() and (y.abs() + height * 10 <= 10 + 1e-4).all()
    areas, aspects = width * height, width / height
    assert areas.min() >= 0.4 - 1e-6 and areas.max() <= 1 + 1e-6
    assert areas.double().mean() == pytest.approx(0.7, abs=5 * 0.6 / np.sqrt(12 * n))
    assert aspects.min() == pytest.approx(3 / 4, abs=0.01) and aspects.max() == pytest.approx(4 / 3, abs=0.01)
    white = torch.ones(50, 1, *size)
    assert torch.allclose(augment(white, draws.mapped(lambda tensor: tensor[:50])), white)  # nothing from outside


@pytest.mark.parametrize("n_channels", [1, 3])
def test_a_zoomed_part_is_resized_as_by_pil(n_channels: int) -> None:
    image = photo(n_channels)
    height, width = image.shape[1:]
    draws = draw(Augmentation(zoom=0.7), 7, 3, np.arange(8), np.tile((height, width), (8, 1)))
    for zoomed, maps in zip(augment(image.repeat(8, 1, 1, 1), draws), draws.maps[:, 0].double(), strict=True):
        size = torch.tensor([width, height])
        center, half = maps[:, 2] + size / 2, maps.diagonal() * size / 2
        left, top, right, bottom = torch.cat(
            [(center - half).clamp(min=0), torch.minimum(center + half, size)]
        ).tolist()
        resized = as_pil(image).resize((width, height), Image.Resampling.BILINEAR, box=(left, top, right, bottom))
        assert (zoomed - as_tensor(resized)).abs().max() < 2 / 255
