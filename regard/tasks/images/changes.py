"""A picture of what augmentation does: training images as they are, and as the first epochs read them."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from regard.viewer.panels import draw_sheet

N_IMAGES, N_EPOCHS = 8, 6


class AugmentedBatch(Protocol):
    """A batch of images."""

    @property
    def lines(self) -> list[str]:
        """Where each came from."""

    def pictures(self) -> list[np.ndarray]:
        """What the model reads, as images (H, W, C), 8-bit."""


Collate = Callable[[np.ndarray, int | None], AugmentedBatch]  # places, and the epoch; None: as they are


def draw_changes(n_images: int, collate: Collate, path: Path) -> None:
    """A sheet with a row for each of a few images.  What mixup and CutMix mix it with is another of these."""
    names, rows = changes(n_images, collate)
    draw_sheet(["as it is", *(f"epoch {epoch}" for epoch in range(N_EPOCHS))], names, rows, path)


def changes(n_images: int, collate: Collate) -> tuple[list[str], list[list[np.ndarray]]]:
    """Where some images came from, and each as it is and in the first epochs."""
    chosen = np.unique(np.linspace(0, n_images - 1, N_IMAGES).astype(np.int64))
    batches = [collate(chosen, epoch) for epoch in (None, *range(N_EPOCHS))]
    columns = [batch.pictures() for batch in batches]
    return batches[0].lines, [list(row) for row in zip(*columns, strict=True)]
