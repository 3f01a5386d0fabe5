"""Images in their files, alone, with a label each, or with captions; none is decoded yet."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.data.files.labelled import WithLabels
from regard.data.files.splits import Divisible
from regard.data.images.sources import ImageSource, Raw
from regard.data.notes import Notes


class Images(Divisible):
    """Image i is read when it is asked for; `origins[i]` is where: a source, and the image's name in it."""

    def __init__(self, origins: Sequence[tuple[ImageSource, str]], notes: Notes | None = None):
        self.origins, self.notes = origins, Notes() if notes is None else notes

    def __len__(self) -> int:
        return len(self.origins)

    def raw(self, i: int) -> Raw:
        """An image file that is not decoded yet, or pixels (H, W) or (H, W, C)."""
        source, name = self.origins[i]
        return source.raw(name)

    def where(self, i: int) -> str:
        """ "cats/1.jpg", "photos.tar:cats/1.jpg", "train-images.idx3-ubyte:17"."""
        source, name = self.origins[i]
        return source.where(name)

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(source.file for source, _ in self.origins))

    @cached_property
    def digests(self) -> list[str]:
        return [digest(self.raw(i)) for i in range(len(self))]

    def keys(self) -> list[str]:
        """Equal files stay together."""
        return self.digests

    def take(self, places: np.ndarray) -> "Images":
        return Images([self.origins[i] for i in places])


def digest(raw: Raw) -> str:
    """Of an array: of its shape too."""
    key = hashlib.blake2b(digest_size=16)
    if isinstance(raw, np.ndarray):
        key.update(f"{raw.shape}".encode())
        key.update(np.ascontiguousarray(raw).data)
    else:
        key.update(raw)
    return key.hexdigest()


@dataclass(frozen=True)
class LabelledImages(WithLabels):
    """The label of image i is `labels[i]`."""

    images: Images
    labels: list[str]

    noun = "image"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def notes(self) -> Notes:  # type: ignore[override]
        return self.images.notes

    @property
    def files(self) -> list[str]:
        return self.images.files

    def where_label(self, i: int) -> str:
        return self.images.where(i)

    def keys(self) -> list[str]:
        return self.images.keys()

    def take(self, places: np.ndarray) -> "LabelledImages":
        return LabelledImages(self.images.take(places), [self.labels[i] for i in places])


@dataclass(frozen=True)
class CaptionedImages(Divisible):
    """Image i has the captions `captions[i]`, one or more."""

    images: Images
    captions: list[list[str]]

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def notes(self) -> Notes:  # type: ignore[override]
        return self.images.notes

    def keys(self) -> list[str]:
        return self.images.keys()

    def take(self, places: np.ndarray) -> "CaptionedImages":
        return CaptionedImages(self.images.take(places), [self.captions[i] for i in places])

    def exchanged(self, seed: int) -> "CaptionedImages":
        """The same images, each with the captions of another one."""
        order = np.random.default_rng(seed).permutation(len(self))
        others = dict(zip(order, np.roll(order, 1), strict=True))
        return CaptionedImages(self.images, [self.captions[others[i]] for i in range(len(self))])
