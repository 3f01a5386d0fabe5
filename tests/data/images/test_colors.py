"""Colors: every operation is PIL's, for each image its own, and what was not chosen stays as it is."""

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.data.images.augment import NAMES, OPERATIONS
from regard.data.images.colors import PLAINER, TABLES, recolor
from regard.data.images.warping import MAPS
from tests.data.images.photos import as_pil, as_tensor, photo, random_images

BY_PIL: dict[str, Callable[[Image.Image, float], Image.Image]] = {
    "autocontrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "brightness": lambda image, amount: ImageEnhance.Brightness(image).enhance(amount),
    "color": lambda image, amount: ImageEnhance.Color(image).enhance(amount),
    "contrast": lambda image, amount: ImageEnhance.Contrast(image).enhance(amount),
    "sharpness": lambda image, amount: ImageEnhance.Sharpness(image).enhance(amount),
    "posterize": lambda image, bits: ImageOps.posterize(image, 8 - round(bits)),
    "solarize": lambda image, level: ImageOps.solarize(image, level),
}

WHOLE = ("equalize", "posterize", "solarize")  # levels become levels; from the others PIL cuts off a fraction


def test_every_operation_is_one_of_place_or_of_color() -> None:
    assert sorted(["identity", *TABLES, *PLAINER, *MAPS]) == sorted(NAMES)


@pytest.mark.sampled("the cases differ in their file alone", cases=3)
@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("name", [*TABLES, *PLAINER])
@pytest.mark.parametrize("strength", [-28, -9, 9, 10, 30])
def test_colors_are_those_of_pil(name: str, strength: float, n_channels: int) -> None:
    least, more, is_signed = OPERATIONS[name]
    amount = least + more * (strength if is_signed else abs(strength)) / 30
    image = photo(n_channels)
    recolored = recolor(image[None], NAMES, torch.tensor([NAMES.index(name)]), torch.tensor([amount]))[0]
    error = (recolored - as_tensor(BY_PIL[name](as_pil(image), amount))).abs().max()
    assert error < (1e-6 if name in WHOLE else 2 / 255)
    assert torch.equal(recolored, image) == ((name, n_channels) == ("color", 1))


@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("name", ["autocontrast", "equalize"])
@pytest.mark.parametrize("n_levels", [1, 2, 5, 256])
def test_few_levels_too(name: str, n_levels: int, n_channels: int) -> None:
    """PIL equalizes by whole steps, and not at all where there would be none."""
    image = 30 / 255 + (random_images(1, n_channels, (40, 40))[0] * n_levels).floor() * (200 // n_levels) / 255
    recolored = recolor(image[None], NAMES, torch.tensor([NAMES.index(name)]), torch.zeros(1))[0]
    error = (recolored - as_tensor(BY_PIL[name](as_pil(image), 0))).abs().max()
    assert error < (1e-6 if name in WHOLE else 2 / 255)


def test_images_of_a_batch_have_their_own_operations() -> None:
    images, operations = random_images(2 * len(NAMES)), torch.arange(len(NAMES)).repeat(2)
    amounts = torch.linspace(0.2, 1.8, len(operations))
    together = recolor(images, NAMES, operations, amounts)
    for i, place in enumerate(operations.tolist()):
        alone = recolor(images[i : i + 1], NAMES, operations[i : i + 1], amounts[i : i + 1])[0]
        assert torch.equal(alone, together[i])
        assert torch.equal(alone, images[i]) == (NAMES[place] in ("identity", *MAPS))
