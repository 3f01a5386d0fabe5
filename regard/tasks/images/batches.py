"""Images as rows of patches, alone or in batches, as they are or as training changes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import expect
from regard.data.batching.batch import Batch, by_length, put_back
from regard.data.images.augment import Augmentation, DrawnChanges, augment, draw, mix
from regard.data.images.examples import Images
from regard.data.images.pixels import PixelForm
from regard.data.images.store import store
from regard.data.notes import Notes
from regard.errors import DataError
from regard.nn.grid import Grid, GridForm, Shape
from regard.nn.layout import Ragged
from regard.processes import spread

ImageArrays = Sequence[np.ndarray]  # images (H, W, C), 8-bit


def read_pixels(images: ImageArrays, form: GridForm) -> tuple[Tensor, Grid]:
    """The pixels of all images, one after the other, and how their patches lie.  A patch that is not full repeats the
    image's last pixels."""
    whole = [filled(image, form.patch).reshape(-1) for image in images]
    return torch.from_numpy(np.concatenate(whole)), Grid([form.shape_of(*image.shape[:2]) for image in images], form)


def filled(image: np.ndarray, patch: int) -> np.ndarray:
    missing = [(0, -side % patch) for side in image.shape[:2]]
    return np.pad(image, [*missing, (0, 0)], mode="edge") if any(map(any, missing)) else image


def check_shape(shape: Shape, form: GridForm, where: str) -> None:
    if max(shape) > form.side:
        most = form.side * form.patch
        raise DataError(f"{where} is larger than the {most} pixels that the model reads; set task.size = {most}")


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Images, one after the other; with draws they change before the model reads them."""

    pixels: Tensor  # 8-bit; of a batch that was filled, cut into patches (N, C P P)
    layout: Ragged
    draws: DrawnChanges | None
    n_added: tuple[int, int] = field(default=(0, 0), kw_only=True)  # rows and images that `filled` added

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences - self.n_added[1]

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows - self.n_added[0]

    @property
    def is_cut(self) -> bool:
        return self.pixels.ndim == 2

    @property
    def is_fillable(self) -> bool:  # type: ignore[override]
        """Images of one size make batches of few shapes as they are."""
        return self.layout.is_full or self.is_cut

    def filled(self) -> Self:
        """Images of many sizes, with rows added that nothing is learned from; not those that change on the device, nor
        those that must stay whole."""
        grid = expect(self.layout, Grid)
        if grid.is_full or grid.form.in_blocks or self.draws is not None:
            return self
        layout = grid.filled()
        n_rows, n_images = layout.n_rows - grid.n_rows, layout.n_sequences - grid.n_sequences
        patches = F.pad(self.patches(), (0, 0, 0, n_rows))
        return replace(self, pixels=patches, layout=layout, n_added=(n_rows, n_images))

    def patches(self) -> Tensor:
        """What the model reads."""
        return self.pixels if self.is_cut else patches_of(self.pixels, self.layout, self.draws)

    def pictures(self) -> list[np.ndarray]:
        return pictures(self.patches(), self.layout)


def read_patches(images: ImageArrays, form: GridForm) -> tuple[Tensor, Grid]:
    """8-bit rows (N, C P P) of images, and how they lie."""
    pixels, layout = read_pixels(images, form)
    return patches_of(pixels, layout), layout


def patches_of(pixels: Tensor, layout: Ragged, draws: DrawnChanges | None = None) -> Tensor:
    """Rows (N, C P P): 8-bit, or where training changes the images, from 0 to 1."""
    grid, start = expect(layout, Grid), 0
    blocks = grid.blocks(pixels)
    if draws is not None:
        for i, block in enumerate(blocks):
            own = draws.rows(start, start + len(block))
            own = replace(own, partner=own.partner - start)
            blocks[i] = mix(augment(block / 255, own), own)
            start += len(block)
    return grid.patches(blocks)


def pictures(patches: Tensor, layout: Ragged) -> list[np.ndarray]:
    """Rows of patches, 8-bit or changed (from 0 to 1), as images for a person: (H, W, C), 8-bit."""
    blocks = expect(layout, Grid).images(patches)
    blocks = [block.mul(255).round().byte() if block.is_floating_point() else block for block in blocks]
    return [image.permute(1, 2, 0).numpy() for block in blocks for image in block.cpu()]


class ImagePart:
    """The pixels of one part of a data set, decoded once."""

    def __init__(self, images: Images, form: PixelForm, grid: GridForm, cache: Path | None):
        self.images, self.grid = images, grid
        self.store = store(images, form, cache)
        self.shapes = -(-self.store.sizes // grid.patch)  # n 2, in patches
        too_large = np.flatnonzero(self.shapes.max(1, initial=0) > grid.side)
        for i in too_large[:1]:
            check_shape(tuple(self.shapes[i].tolist()), grid, images.where(int(i)))
        self.lengths = grid.class_row + self.shapes.prod(1)
        self.kept = np.arange(len(images))
        self.notes = Notes()
        self.notes.update(images.notes)
        self.notes.update(self.store.notes)

    def __len__(self) -> int:
        return len(self.kept)

    def describe(self) -> str:
        return f"{len(self):,} images, {self.lengths.sum():,} rows"

    def by_shape(self, places: np.ndarray) -> np.ndarray:
        """Images of one shape beside each other, so that they are one block."""
        return places[np.lexsort(self.shapes[places].T)]

    def lines(self, places: np.ndarray) -> list[str]:
        return [self.images.where(i) for i in places.tolist()]

    def read(self, places: np.ndarray) -> tuple[Tensor, Grid]:
        if self.whole is None:
            return read_pixels([self.store[i] for i in places.tolist()], self.grid)
        pixels = torch.from_numpy(self.whole[places].reshape(-1))
        return pixels, Grid([tuple(self.shapes[0].tolist())] * len(places), self.grid)

    @cached_property
    def whole(self) -> np.ndarray | None:
        """All pixels (n, H, W, C), where all images have one size, in whole patches."""
        sizes = self.store.sizes
        if (sizes != sizes[:1]).any() or (sizes[:1] % self.grid.patch).any():
            return None
        return np.asarray(self.store.pixels).reshape(len(sizes), *sizes[0], self.store.channels)

    def draw(
        self, config: Augmentation, seed: int, epoch: int | None, places: np.ndarray, examples: np.ndarray
    ) -> DrawnChanges | None:
        """What an epoch of training does to the images at these places, each for an example of its own; None: nothing.
        Those that are mixed have one shape."""
        if epoch is None or not config.is_on:
            return None
        shapes = self.shapes[places]
        starts = np.flatnonzero((shapes[1:] != shapes[:-1]).any(1)) + 1
        runs = zip(np.split(examples, starts), np.split(shapes, starts), strict=True)
        return joined([draw(config, seed, epoch, run, sizes * self.grid.patch) for run, sizes in runs])


def joined(drawn: Sequence[DrawnChanges]) -> DrawnChanges:
    """As if one draw had been made for all; partners are counted from the first image of all."""
    starts = accumulate((len(draws.partner) for draws in drawn[:-1]), initial=0)
    whole = [replace(draws, partner=draws.partner + start) for draws, start in zip(drawn, starts, strict=True)]
    columns = zip(*(draws.tensors() for draws in whole), strict=True)
    return whole[0] if len(whole) == 1 else DrawnChanges(*(torch.cat(column) for column in columns))


@torch.no_grad()
def read_each(
    model: Callable[[Tensor, Ragged], Tensor], images: ImageArrays, form: GridForm, budget: int, device: torch.device
) -> Tensor:
    """What a model makes of each image, on the host (images, ...); those of about one length are read together."""
    shapes = np.array([form.shape_of(*image.shape[:2]) for image in images]).reshape(-1, 2)
    lengths = form.class_row + shapes.prod(1)
    groups = [group[np.lexsort(shapes[group].T)] for group in by_length(lengths, budget)]

    def rows(places: np.ndarray) -> Tensor:
        pixels, layout = read_pixels([images[i] for i in places], form)
        batch = ImageBatch([], pixels, layout, None).to(device)
        return model(batch.patches(), batch.layout).float()

    return put_back(spread(groups, rows), groups)
