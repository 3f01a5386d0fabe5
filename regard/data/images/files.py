"""Data sets of images: which form the files of a recipe have, and the images in them with their labels or captions."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

from regard.data.config import DataConfig
from regard.data.files.reading import paths_of
from regard.data.files.splits import Parts, ReadFiles, read_parts
from regard.data.images.archives import open_archive
from regard.data.images.captions import from_caption_table, from_flickr
from regard.data.images.classes import from_class_folders, from_idx, from_label_table, from_sprites
from regard.data.images.examples import CaptionedImages, Images, LabelledImages
from regard.data.images.given import GivenFiles, by_kind
from regard.errors import ConfigError, DataError

__all__ = ["CaptionedImages", "Images", "LabelledImages", "captioned_images", "labelled_images"]

D = TypeVar("D", LabelledImages, CaptionedImages)
FormReaders = Mapping[tuple[str, ...], Callable[[GivenFiles], D]]  # by the kinds of files that each form has, sorted

LABELLED: FormReaders[LabelledImages] = {
    ("idx",): from_idx,
    ("folder",): from_class_folders,
    ("archive",): from_class_folders,
    ("table",): from_label_table,
    ("archive", "table"): from_label_table,
    ("folder", "table"): from_label_table,
    ("list", "picture"): from_sprites,
}
CAPTIONED: FormReaders[CaptionedImages] = {
    ("table",): from_caption_table,
    ("archive", "table"): from_caption_table,
    ("folder", "table"): from_caption_table,
    ("archive", "text"): from_flickr,
    ("folder", "text"): from_flickr,
}


def labelled_images(data: DataConfig) -> Parts[LabelledImages]:
    expected = (
        "labeled images are idx files (images and labels), folders or archives with a folder for each class, tables of "
        "paths and labels (with an archive or a folder, if the images are there), or pictures of rows and JSON lists"
    )
    return read_parts(data, "images", reader(LABELLED, data.columns, expected))


def captioned_images(data: DataConfig) -> Parts[CaptionedImages]:
    expected = (
        "images with captions are tables of paths and captions (with an archive or a folder, if the images are there), "
        "or a text of numbered captions, an archive or a folder, and lists of images (Flickr8k)"
    )
    return read_parts(data, "images", reader(CAPTIONED, data.columns, expected))


def reader(forms: FormReaders[D], columns: tuple[str, ...], expected: str) -> ReadFiles[D]:
    """An archive that several parts name is opened once."""
    open_once = cache(open_archive)

    def read(files: tuple[str, ...], root: str) -> D:
        kinds = by_kind(paths_of(files, root))
        form = forms.get(tuple(sorted(kinds)))
        if form is None:
            given = "; ".join(f"{kind}: {', '.join(path.name for path in paths)}" for kind, paths in kinds.items())
            raise ConfigError(f"these files do not go together ({given}); {expected}")
        examples = form(GivenFiles(kinds, columns, open_once))
        if not len(examples):
            raise DataError(f"{', '.join(files)}: no images at all; check the files")
        return examples

    return read
