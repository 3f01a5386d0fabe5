"""Images with a label each, in the forms that such data has: idx files, a folder for each class, tables of paths, and
pictures whose rows are images."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.images.arrays import read_idx, read_label_list, read_sprite
from regard.data.images.examples import Images, LabelledImages
from regard.data.images.given import GivenFiles
from regard.data.images.sources import Array, ImageSource
from regard.errors import ConfigError, DataError

NamesInSources = list[tuple[ImageSource, str]]


def from_idx(given: GivenFiles) -> LabelledImages:
    """A file of images and a file of labels, or more such pairs."""
    arrays = [(path, read_idx(path)) for path in given.paths("idx")]
    images = [(path, array) for path, array in arrays if array.ndim > 1]
    labels = [(path, array) for path, array in arrays if array.ndim == 1]
    if len(images) != len(labels):
        counted = f"got {len(images)} with images and {len(labels)} with labels"
        raise ConfigError(f"idx files come in pairs, images and labels; {counted}: {listed(given.paths('idx'))}")
    origins: NamesInSources = []
    for (path, pixels), (labels_path, values) in zip(images, labels, strict=True):
        check_pixels(path, pixels)
        check_counts([path], len(pixels), [labels_path], len(values))
        array = Array(path, pixels)
        origins += [(array, name) for name in array.names(given.notes)]
    return LabelledImages(Images(origins, given.notes), [str(label) for _, array in labels for label in array.tolist()])


def check_pixels(path: Path, pixels: np.ndarray) -> None:
    """(n, H, W), or (n, H, W, C) with one channel or three."""
    if pixels.ndim == 2 or (pixels.ndim == 4 and pixels.shape[3] not in (1, 3)) or 0 in pixels.shape[1:]:
        sizes = " x ".join(f"{size:,}" for size in pixels.shape)
        raise DataError(f"{path} has the sizes {sizes}; expected images x height x width; check the file")


def check_counts(images: Sequence[Path], n_images: int, labels: Sequence[Path], n_labels: int) -> None:
    if n_images != n_labels:
        counts = f"{listed(images)} has {n_images:,} images and {listed(labels)} has {n_labels:,} labels"
        raise DataError(f"{counts}; each image needs one: check that these files belong together")


def from_sprites(given: GivenFiles) -> LabelledImages:
    """Pictures of which each row is an image, and JSON lists of labels for all of them, in order."""
    origins: NamesInSources = []
    for path in given.paths("picture"):
        sprite = read_sprite(path)
        origins += [(sprite, name) for name in sprite.names(given.notes)]
    labels = [label for path in given.paths("list") for label in read_label_list(path, given.notes)]
    check_counts(given.paths("picture"), len(origins), given.paths("list"), len(labels))
    return LabelledImages(Images(origins, given.notes), labels)


def from_class_folders(given: GivenFiles) -> LabelledImages:
    """Folders, or archives, in which each class has a folder."""
    origins: NamesInSources = []
    labels: list[str] = []
    for source in given.holders:
        names = source.names(given.notes)
        loose = next((name for name in names if "/" not in source.inside(name)), None)
        if loose is not None:
            hint = "put it into the folder of its class, or name a table with columns of paths and labels"
            raise DataError(f"{source.where(loose)} is in no folder of a class; {hint}")
        origins += [(source, name) for name in names]
        labels += [PurePosixPath(source.inside(name)).parts[0] for name in names]
    return LabelledImages(Images(origins, given.notes), labels)


def from_label_table(given: GivenFiles) -> LabelledImages:
    """Tables with a column of paths and one of labels."""
    origins: NamesInSources = []
    labels: list[str] = []
    for row in given.rows("label"):
        if not row.value:
            raise DataError(f"{row.place} has no label; give it one or take it out")
        origins.append((row.source, row.name))
        labels.append(row.value)
    return LabelledImages(Images(origins, given.notes), labels)


def listed(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)
