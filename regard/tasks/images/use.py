"""Images that a user gives: their pixels, and vectors of them."""

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from regard.choose import choose
from regard.data.images.pixels import Picture, Resizing, pixels_of
from regard.models.interface import Model
from regard.nn.grid import GridForm
from regard.nn.layout import Ragged
from regard.nn.pooling import POOLINGS, summary
from regard.tasks.embedding import BATCH_TOKENS, rows_of
from regard.tasks.images.batches import ImageArrays, check_shape, read_each


def pixels_given(pictures: Iterable[Picture], resizing: Resizing, grid: GridForm) -> ImageArrays:
    """What a model reads of what a user gives: paths, PIL images, arrays or tensors."""
    form, images = resizing.form(grid.channels), []
    for i, picture in enumerate(pictures):
        where = str(picture) if isinstance(picture, str) else f"image {i}"
        images.append(pixels_of(picture, form, where))
        check_shape(grid.shape_of(*images[-1].shape[:2]), grid, where)
    return images


def embed_images(model: Model, images: ImageArrays, grid: GridForm, pooling: str, layer: int | None) -> np.ndarray:
    """One vector for each image, (images, D): of the rows that the model reads from it."""
    choose(POOLINGS, pooling, "pooling")

    def vectors(patches: Tensor, layout: Ragged) -> Tensor:
        return summary(rows_of(model, patches, layout, layer), layout, pooling)

    return read_each(vectors, images, grid, BATCH_TOKENS, model.device).numpy()
