"""Augmentation: chance is a key, frequencies and areas are as asked for, and labels are shared as pixels are."""

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.images.augment import NAMES, Augmentation, DrawnChanges, augment, draw, mix, noise_like, symmetric_beta
from regard.errors import ConfigError
from tests.data.images.photos import random_images

ALL = Augmentation(shift=3, zoom=0.5, flip=0.5, operations=2, erase=0.5, mixup=0.8, cutmix=1.0)
MANY = 20_000
OF_THE_BATCH = ("mixed", "kept", "share", "partner")


def draw_some(config: Augmentation, places: np.ndarray, size: tuple[int, int] = (12, 9)) -> DrawnChanges:
    return draw(config, 7, 3, places, np.tile(size, (len(places), 1)))


def own_parts(draws: DrawnChanges, i: int) -> list[Tensor]:
    return [getattr(draws, field.name)[i] for field in fields(draws) if field.name not in OF_THE_BATCH]


def all_equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


# Chance.


@settings(deadline=None, max_examples=25)
@given(places=st.lists(st.integers(0, 10**9), min_size=1, max_size=12, unique=True), epoch=st.integers(0, 5))
def test_draws_of_an_image_do_not_depend_on_the_batch(places: list[int], epoch: int) -> None:
    sizes = np.array([[8 + place % 5, 9] for place in places])
    together = draw(ALL, 7, epoch, np.array(places), sizes)
    turned = draw(ALL, 7, epoch, np.array(places[::-1]), sizes[::-1])
    for i, place in enumerate(places):
        alone = own_parts(draw(ALL, 7, epoch, np.array([place]), sizes[i : i + 1]), 0)
        assert all_equal(alone, own_parts(together, i)) and all_equal(alone, own_parts(turned, len(places) - 1 - i))


@pytest.mark.parametrize("n_channels", [1, 3])
def test_pixels_of_an_image_do_not_depend_on_the_batch(n_channels: int) -> None:
    places, images = np.arange(40, 72), random_images(32, n_channels)
    together = augment(images, draw_some(ALL, places))
    for i in range(len(places)):
        assert torch.equal(augment(images[i : i + 1], draw_some(ALL, places[i : i + 1]))[0], together[i])
    assert together.shape == images.shape and together.min() >= 0 and together.max() <= 1


def test_mixing_depends_on_the_first_place() -> None:
    once, again, other = (draw_some(ALL, np.array(places)) for places in ([5, 1, 2, 3], [5, 9, 8, 7], [6, 1, 2, 3]))
    assert all(torch.equal(getattr(once, name), getattr(again, name)) for name in OF_THE_BATCH)
    assert not torch.equal(once.share, other.share)


@pytest.mark.parametrize(("seed", "epoch"), [(1, 2), (2, 1), (2, 2)])
def test_another_epoch_or_seed_is_another_chance(seed: int, epoch: int) -> None:
    places, sizes = np.arange(100), np.full((100, 2), 32)
    first, other = draw(ALL, 1, 1, places, sizes), draw(ALL, seed, epoch, places, sizes)
    assert (first.maps != other.maps).flatten(1).any(1).all() and (first.noise != other.noise).all()
    assert first.share[0] != other.share[0] and not torch.equal(first.partner, other.partner)


def test_moves_are_as_frequent_as_asked_for() -> None:
    """Five standard deviations are allowed, here and below."""
    draws = draw_some(Augmentation(shift=3, flip=0.3), np.arange(MANY))
    assert (draws.maps[:, 0, 0, 0] < 0).double().mean() == pytest.approx(0.3, abs=0.0163)
    for shifts in draws.maps[:, 0, :, 2].T:
        values, counts = shifts.unique(return_counts=True)
        assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
        assert (counts / MANY - 1 / 7).abs().max() < 0.0124


def test_operations_are_equally_frequent() -> None:
    draws = draw_some(Augmentation(operations=3, strength=15), np.arange(MANY))
    for operations in draws.operations.T:
        assert (operations.bincount(minlength=len(NAMES)) / MANY - 1 / len(NAMES)).abs().max() < 0.0091
    pairs = (draws.operations[:, 0] * len(NAMES) + draws.operations[:, 2]).bincount(minlength=len(NAMES) ** 2)
    assert (pairs - MANY / len(NAMES) ** 2).abs().max() < 5 * 10.1  # no turn depends on another


def test_amounts_are_those_of_the_strength() -> None:
    draws = draw_some(Augmentation(operations=1, strength=15), np.arange(MANY))
    amounts = {name: draws.amounts[draws.operations == place] for place, name in enumerate(NAMES)}
    assert amounts["solarize"].unique().tolist() == [127.5] and amounts["posterize"].unique().tolist() == [2]
    assert amounts["rotate"].unique().tolist() == [-15, 15]
    assert amounts["color"].unique().tolist() == pytest.approx([0.55, 1.45])
    assert (amounts["shear_x"] > 0).double().mean() == pytest.approx(0.5, abs=0.067)


# Erasing.


def test_what_is_erased_has_its_area() -> None:
    draws = draw_some(Augmentation(erase=0.4), np.arange(MANY), (64, 48))
    top, bottom, left, right = draws.erased[:, 0].T
    is_erased = bottom > 0
    assert is_erased.double().mean() == pytest.approx(0.4, abs=0.0173)
    assert (bottom <= 64).all() and (right <= 48).all() and top.min() == left.min() == 0
    height, width = ((bottom - top) / 64)[is_erased], ((right - left) / 48)[is_erased]
    rounding = 0.5 * (height / 48 + width / 64)
    assert (height * width >= 0.02 - rounding).all() and (height * width <= 0.33 + rounding).all()
    assert (height * width).double().mean() == pytest.approx((0.02 + 0.33) / 2, abs=0.006)


def test_the_rest_of_the_image_is_not_erased() -> None:
    images = random_images(200)
    draws = draw_some(Augmentation(erase=0.5), np.arange(200))
    changed = augment(images, draws) != images
    for i, (top, bottom, left, right) in enumerate(draws.erased[:, 0].tolist()):
        assert changed[i, :, top:bottom, left:right].all()
        assert changed[i].sum() == 3 * (bottom - top) * (right - left)


def test_noise_is_uniform_and_not_correlated() -> None:
    keys = draw_some(Augmentation(erase=1.0), np.arange(200)).noise[:, 0]
    noise = noise_like(torch.zeros(200, 3, 32, 32), keys).double()
    shares = torch.histc(noise, 20, 0, 1) / noise.numel()
    assert (shares - 0.05).abs().max() < 5 * np.sqrt(0.05 * 0.95 / noise.numel())
    centered = noise - 0.5
    for axis in range(4):  # with the next image, channel, row and pixel
        neighbors = (centered * centered.roll(1, axis)).mean() * 12
        assert abs(neighbors) < 5 / np.sqrt(noise.numel())


# Mixing.


@pytest.mark.parametrize("config", [Augmentation(mixup=0.8), Augmentation(cutmix=1.0)], ids=["mixup", "cutmix"])
@pytest.mark.parametrize("first", range(12))
def test_labels_are_shared_as_pixels_are(config: Augmentation, first: int) -> None:
    n, size = 6, (13, 10)
    draws = draw_some(config, np.arange(first, first + n), size)
    mixed = mix(torch.eye(n)[:, :, None, None].expand(n, n, *size), draws)  # channel j is how much of image j is there
    labels = draws.share[:, None] * torch.eye(n) + (1 - draws.share)[:, None] * torch.eye(n)[draws.partner]
    assert torch.allclose(mixed.mean((2, 3)), labels, atol=1e-6)
    assert sorted(draws.partner.tolist()) == list(range(n)) and (draws.partner != torch.arange(n)).all()
    if config.cutmix:
        assert set(mixed.flatten().tolist()) <= {0.0, 1.0}
    else:
        assert torch.equal(mixed, mixed[..., :1, :1].expand_as(mixed))


@pytest.mark.slow  # thousands of draws
def test_a_batch_is_mixed_in_one_of_two_ways() -> None:
    kept = [float(draw_some(ALL, np.array([first, 0])).kept[0, 0]) for first in range(1000)]
    assert np.mean(np.array(kept) == 0) == pytest.approx(0.5, abs=0.079)


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.8, 1.0, 8.0])
def test_weights_are_of_the_beta_distribution(alpha: float) -> None:
    lots = np.random.default_rng(0).random((MANY, 2))
    ours = np.sort([symmetric_beta(alpha, *pair) for pair in lots])
    theirs = np.sort(np.random.default_rng(1).beta(alpha, alpha, MANY))
    ranks = np.searchsorted(ours, np.clip(theirs, 1e-12, 1 - 1e-12)) / MANY
    inner = (theirs > 1e-9) & (theirs < 1 - 1e-9)
    assert np.abs(ranks - np.arange(MANY) / MANY)[inner].max() < 2.2 * np.sqrt(2 / MANY)  # Kolmogorov and Smirnov
    assert ours.min() >= 0 and ours.max() <= 1 and ours.mean() == pytest.approx(0.5, abs=0.018)


# Settings.


def test_nothing_changes_by_default() -> None:
    images, draws = random_images(5), draw_some(Augmentation(), np.arange(5))
    assert not Augmentation(strength=30).is_on
    assert torch.equal(mix(augment(images, draws), draws), images) and draws.share.tolist() == [1.0] * 5


@pytest.mark.parametrize("name", ["shift", "zoom", "flip", "operations", "erase", "mixup", "cutmix"])
def test_each_setting_changes_images(name: str) -> None:
    config = Augmentation(**{name: 1 if name in ("shift", "operations") else 0.9})
    images, draws = random_images(40), draw_some(config, np.arange(40))
    assert config.is_on and not torch.equal(mix(augment(images, draws), draws), images)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"shift": -1}, "shift must not be negative, got -1"),
        ({"zoom": 1.0}, "zoom must be at least 0 and below 1, got 1.0"),
        ({"flip": 1.5}, "flip must be at most 1, got 1.5"),
        ({"strength": 31.0}, "strength must be at most 30, got 31.0"),
        ({"mixup": float("nan")}, "mixup must not be negative, got nan"),
    ],
)
def test_impossible_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}$"):
        Augmentation(**setting)  # type: ignore[arg-type]


# Devices.


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("size", [(32, 32), (1, 1), (2, 5)])
def test_the_same_draws_give_the_same_pixels(size: tuple[int, int]) -> None:
    images, draws = random_images(64, 3, size), draw_some(ALL, np.arange(64), size)
    once, again = (mix(augment(images, draws), draws) for _ in range(2))
    assert torch.equal(once, again) and once.isfinite().all()


def test_the_host_never_waits_for_the_device() -> None:
    """Tensors without values cannot be looked at, and shapes cannot depend on them."""
    device = torch.device("meta")
    images, draws = random_images(8).to(device), draw_some(ALL, np.arange(8)).mapped(lambda tensor: tensor.to(device))
    assert mix(augment(images, draws), draws).shape == images.shape
