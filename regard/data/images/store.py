"""Images are decoded once, into a file that is mapped into memory and found again by their content and form."""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from regard.data.cached import is_unharmed, save_array, write_whole
from regard.data.config import n_cores
from regard.data.images.examples import Images, digest
from regard.data.images.opening import DECISIONS, Traits, open_image
from regard.data.images.pixels import PixelForm, array_in_form, in_form, to_bytes
from regard.data.notes import Notes
from regard.errors import DataError, RunError
from regard.memory import check_memory, free_memory

FILES = ("pixels.bin", "sizes.npy", "traits.npy")
VERSION = 2  # of how pixels are made: another one is decoded again
RUN = 64  # images that a thread decodes at a time
RUNS = 4  # of each thread, decoded before they are written
MOST_BAD = 10  # images that cannot be read, named before the rest is given up


@dataclass(frozen=True)
class PixelStore:
    """Image i has `sizes[i]`, height and width, and follows image i - 1 in `pixels`."""

    pixels: np.ndarray  # of all images, 8-bit numbers
    sizes: np.ndarray  # (n, 2)
    traits: np.ndarray  # (n): what each was in its file
    channels: int
    notes: Notes = field(default_factory=Notes)  # what decoding decided

    @cached_property
    def offsets(self) -> np.ndarray:
        return np.cumsum([0, *(self.sizes.prod(1) * self.channels)])

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, i: int) -> np.ndarray:
        """A view (H, W, C)."""
        if not 0 <= i < len(self):
            raise IndexError(f"image {i} of a store of {len(self)}")
        height, width = self.sizes[i]
        return self.pixels[self.offsets[i] : self.offsets[i + 1]].reshape(height, width, self.channels)

    @cached_property
    def digests(self) -> list[str]:
        """Equal pixels, equal digests."""
        return [digest(self[i]) for i in range(len(self))]


def store(images: Images, form: PixelForm, cache: Path | None) -> PixelStore:
    """The pixels of `images`: from `cache` if they are there unharmed, otherwise decoded and left there (None: kept in
    memory)."""
    if cache is None:
        file = io.BytesIO()
        sizes, traits = decode_all(images, form, file, free_memory())
        return made(np.frombuffer(file.getbuffer().toreadonly(), np.uint8), sizes, traits, form, images)
    folder = cache / content_key(images, form)
    if not is_unharmed(folder, FILES):
        try:
            write_whole(folder, FILES, lambda beside: write_store(images, form, beside))
        except OSError as error:
            hint = "the images are untouched; free some space or set data.cache to another folder"
            raise RunError(f"the cache of images {cache} cannot be written ({error.strerror}); {hint}") from None
    sizes, traits = np.load(folder / "sizes.npy"), np.load(folder / "traits.npy")
    pixels = np.memmap(folder / "pixels.bin", np.uint8, mode="r") if len(sizes) else np.empty(0, np.uint8)
    return made(pixels, sizes, traits, form, images)


def made(pixels: np.ndarray, sizes: np.ndarray, traits: np.ndarray, form: PixelForm, images: Images) -> PixelStore:
    notes = Notes()
    for trait, decision in DECISIONS.items():
        having = np.flatnonzero(traits & trait)
        if len(having):
            notes.add(decision, images.where(int(having[0])), len(having))
    return PixelStore(pixels, sizes, traits, form.channels, notes)


def content_key(images: Images, form: PixelForm) -> str:
    """A name for the pair (images, form) that no other pair has."""
    key = hashlib.blake2b(f"{VERSION} {form}".encode(), digest_size=16)
    for content in images.digests:
        key.update(content.encode())
    return key.hexdigest()


def write_store(images: Images, form: PixelForm, folder: Path) -> None:
    with (folder / "pixels.bin").open("wb") as file:
        sizes, traits = decode_all(images, form, file)
    save_array(folder / "sizes.npy", sizes)
    save_array(folder / "traits.npy", traits)


Decoded = tuple[np.ndarray, Traits]


def decode_all(
    images: Images, form: PixelForm, file: BinaryIO, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Write the pixels of all images, one after the other, `most` bytes if they stay in memory; give their sizes and
    traits.  Images that cannot be read are named together."""
    sizes, traits, bad, n_bytes = [], [], [], 0
    for result in decoded(images, form):
        if isinstance(result, DataError):
            bad.append(str(result))
            if len(bad) == MOST_BAD:
                break
            continue
        pixels, own_traits = result
        n_bytes += pixels.nbytes
        sizes.append(pixels.shape[:2])
        traits.append(own_traits)
        if most is not None and n_bytes > most:
            check_memory(n_bytes, f"{len(sizes):,} of {len(images):,} images", "make them smaller, or set data.cache")
        if not bad:
            file.write(np.ascontiguousarray(pixels).data)
    if bad:
        raise DataError(bad[0] + (f"; as bad are: {'; '.join(bad[1:])}" if bad[1:] else ""))
    return np.array(sizes, np.int64).reshape(-1, 2), np.array(traits, np.uint8)


def decoded(images: Images, form: PixelForm) -> Iterator[Decoded | DataError]:
    """In order; PIL lets other threads work while it decodes."""
    n_threads = min(n_cores(), 8)

    def run(start: int) -> list[Decoded | DataError]:
        return [decode_image(images, i, form) for i in range(start, min(start + RUN, len(images)))]

    starts = range(0, len(images), RUN)
    with ThreadPoolExecutor(n_threads) as pool:
        for first in range(0, len(starts), RUNS * n_threads):
            for results in pool.map(run, starts[first : first + RUNS * n_threads]):
                yield from results


def decode_image(images: Images, i: int, form: PixelForm) -> Decoded | DataError:
    try:
        raw, where = images.raw(i), images.where(i)
        if isinstance(raw, np.ndarray):
            return array_in_form(to_bytes(raw, where), form, where)
        image, traits = open_image(raw, where)
        return in_form(image, form), traits
    except DataError as error:
        return error
