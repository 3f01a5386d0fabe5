"""Images as rows of patches, alone or in batches, as they are or as training changes them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.checks import expect
from regard.data.batching.batch import SequenceBatch, by_length, put_back
from regard.data.images.augment import Augmentation, Draws, augment, draw, mix
from regard.data.images.examples import Images
from regard.data.images.pixels import PixelForm
from regard.data.images.store import PixelStore, store
from regard.data.notes import Notes
from regard.errors import DataError
from regard.nn.grid import Grid, GridForm, Shape
from regard.nn.layout import Ragged

Pixels = Sequence[np.ndarray]  # images (H, W, C), 8-bit


def patches_of(images: Pixels, form: GridForm) -> tuple[Tensor, Grid]:
    """8-bit rows (N, C P P) of images and how they lie.  A patch that is not full repeats the image's last pixels."""
    shapes = [form.shape_of(*image.shape[:2]) for image in images]
    layout, whole = Grid(shapes, form), [filled(image, form.patch) for image in images]
    blocks, start = [], 0
    for n, _ in layout.runs:
        block = torch.from_numpy(np.stack(whole[start : start + n]))
        blocks.append(block.permute(0, 3, 1, 2))
        start += n
    return layout.patches(blocks), layout


def filled(image: np.ndarray, patch: int) -> np.ndarray:
    missing = [(0, -side % patch) for side in image.shape[:2]]
    return np.pad(image, [*missing, (0, 0)], mode="edge") if any(map(any, missing)) else image


def by_shape(places: np.ndarray, shapes: Sequence[Shape]) -> np.ndarray:
    """Images of one shape beside each other, so that they are one block."""
    return np.array(sorted(places, key=lambda i: shapes[i]), np.int64)


def check_shape(shape: Shape, form: GridForm, where: str) -> None:
    if max(shape) > form.side:
        most = form.side * form.patch
        raise DataError(f"{where} is larger than the {most} pixels that the model reads; set task.size = {most}")


@dataclass(frozen=True)
class ImageBatch(SequenceBatch):
    """`tokens` are 8-bit patches (N, C P P); with draws they change before the model reads them."""

    draws: Draws | None

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences

    @property
    def is_fillable(self) -> bool:  # type: ignore[override]
        """Images of one size make batches of few shapes."""
        return self.layout.is_full

    def patches(self) -> Tensor:
        """What the model reads."""
        return augmented(self.tokens, self.layout, self.draws)

    def pictures(self) -> list[np.ndarray]:
        return pictures(self.patches(), self.layout)


def augmented(patches: Tensor, layout: Ragged, draws: Draws | None) -> Tensor:
    """8-bit patches (N, C P P) as training changes them; None: as they are."""
    if draws is None:
        return patches
    grid, changed, start = expect(layout, Grid), [], 0
    for block in grid.images(patches):
        end = start + len(block)
        own = draws.rows(start, end)
        own = replace(own, partner=own.partner - start)
        changed.append(mix(augment(block / 255, own), own))
        start = end
    return grid.patches(changed)


def pictures(patches: Tensor, layout: Ragged) -> list[np.ndarray]:
    """Rows of patches, 8-bit or changed (from 0 to 1), as images for a person: (H, W, C), 8-bit."""
    blocks = expect(layout, Grid).images(patches)
    blocks = [block.mul(255).round().byte() if block.is_floating_point() else block for block in blocks]
    return [image.permute(1, 2, 0).numpy() for block in blocks for image in block.cpu()]


class ImagePart:
    """The pixels of one part of a data set, decoded once."""

    def __init__(self, images: Images, form: PixelForm, grid: GridForm, cache: Path | None):
        self.images, self.grid = images, grid
        self.store: PixelStore = store(images, form, cache)
        self.shapes = [grid.shape_of(*size) for size in self.store.sizes.tolist()]
        self.lengths = np.array([grid.n_rows(shape) for shape in self.shapes], np.int64)
        self.kept = np.arange(len(images))
        self.notes = Notes()
        self.notes.update(images.notes)
        self.notes.update(self.store.notes)
        for i, shape in enumerate(self.shapes):
            check_shape(shape, grid, images.where(i))

    def __len__(self) -> int:
        return len(self.kept)

    def describe(self) -> str:
        return f"{len(self):,} images, {self.lengths.sum():,} rows"

    def lines(self, places: np.ndarray) -> list[str]:
        return [self.images.where(int(i)) for i in places]

    def read(self, places: np.ndarray) -> tuple[Tensor, Grid]:
        return patches_of([self.store[int(i)] for i in places], self.grid)

    def draw(
        self, config: Augmentation, seed: int, epoch: int | None, places: np.ndarray, examples: np.ndarray
    ) -> Draws | None:
        """What an epoch of training does to the images at these places, each for an example of its own; None: nothing.
        Those that are mixed have one shape."""
        if epoch is None or not config.is_on:
            return None
        shapes = np.array([self.shapes[i] for i in places])
        starts = np.flatnonzero(np.diff(shapes, axis=0).any(1)) + 1
        drawn = [
            draw(config, seed, epoch, run, sizes * self.grid.patch)
            for run, sizes in zip(np.split(examples, starts), np.split(shapes, starts), strict=True)
        ]
        return joined(drawn)


def joined(drawn: Sequence[Draws]) -> Draws:
    """As if one draw had been made for all; partners are counted from the first image of all."""
    starts = accumulate((len(draws.partner) for draws in drawn[:-1]), initial=0)
    whole = [replace(draws, partner=draws.partner + start) for draws, start in zip(drawn, starts, strict=True)]
    columns = zip(*(draws.tensors() for draws in whole), strict=True)
    return whole[0] if len(whole) == 1 else Draws(*(torch.cat(column) for column in columns))


def read_images(
    images: Pixels, form: GridForm, budget: int, device: torch.device
) -> Iterator[tuple[np.ndarray, Tensor, Grid]]:
    """Groups of images of about one length: which they are, their patches and their layout."""
    shapes = [form.shape_of(*image.shape[:2]) for image in images]
    lengths = np.array([form.n_rows(shape) for shape in shapes], np.int64)
    for group in by_length(lengths, budget):
        places = by_shape(group, shapes)
        tokens, layout = patches_of([images[i] for i in places], form)
        yield places, tokens.to(device), layout.to(device)


@torch.no_grad()
def read_each(
    model: Callable[[Tensor, Grid], Tensor], images: Pixels, form: GridForm, budget: int, device: torch.device
) -> Tensor:
    """What a model makes of each image, on the host (images, ...)."""
    groups, rows = [], []
    for places, tokens, layout in read_images(images, form, budget, device):
        groups.append(places)
        rows.append(model(tokens, layout).float().cpu())
    return put_back(rows, groups)
