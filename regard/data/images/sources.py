"""Where images lie: a folder, an archive (`archives.py`), or an array of images that one file holds."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from regard.data.files.reading import read_bytes
from regard.data.images.opening import MOST_BYTES
from regard.data.notes import Notes
from regard.errors import DataError

Raw = bytes | np.ndarray  # an image file, not decoded yet, or pixels
ENDINGS = {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff"}
ENDINGS |= {".ppm", ".pgm", ".pbm", ".pnm"}


class ImageSource(ABC):
    """Images by name: of a folder or an archive, paths with slashes; of an array, numbers that begin with 1."""

    path: Path

    @property
    def file(self) -> str:
        return self.path.name

    @abstractmethod
    def raw(self, name: str) -> Raw: ...

    @abstractmethod
    def where(self, name: str) -> str: ...

    @abstractmethod
    def find(self, name: str) -> str | None:
        """The image that a table calls so: its name here, or None."""

    def inside(self, name: str) -> str:
        """The name, without a folder that all images share."""
        return name

    @abstractmethod
    def names(self, notes: Notes) -> list[str]:
        """All images, in order; what is passed over is noted."""


class Folder(ImageSource):
    def __init__(self, path: Path):
        self.path = path

    def raw(self, name: str) -> bytes:
        return read_bytes(self.path / name, MOST_BYTES + 1)

    def where(self, name: str) -> str:
        return name

    def find(self, name: str) -> str | None:
        return name if (self.path / name).is_file() else None

    def names(self, notes: Notes) -> list[str]:
        paths: list[str] = []
        visited: set[str] = set()
        for folder, inner, files in os.walk(self.path, followlinks=True, onerror=cannot_list):
            real = os.path.realpath(folder)
            if real in visited:
                raise DataError(f"{folder} is a link to a folder that was read already; remove the link")
            visited.add(real)
            inside = Path(folder).relative_to(self.path)
            paths += [(inside / name).as_posix() for name in files]
            if not inner and not files:
                notes.add("empty folder", inside.as_posix())
        return images_among(paths, notes, self.where)


class Array(ImageSource):
    """(n, H, W) or (n, H, W, C): the file is named for them."""

    def __init__(self, path: Path, images: np.ndarray):
        self.path, self.images = path, images

    def raw(self, name: str) -> np.ndarray:
        return self.images[int(name) - 1]

    def where(self, name: str) -> str:
        return f"{self.file}:{name}"

    def find(self, name: str) -> str | None:
        return name if name.isdecimal() and 1 <= int(name) <= len(self.images) else None

    def names(self, notes: Notes) -> list[str]:
        return [str(i + 1) for i in range(len(self.images))]


def cannot_list(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be listed: {error.strerror}; check its permissions") from None


def images_among(paths: Sequence[str], notes: Notes, where: Callable[[str], str]) -> list[str]:
    """Those with the ending of an image, sorted; hidden files and others are noted."""
    images = []
    for path in sorted(paths):
        parts = PurePosixPath(path).parts
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            notes.add("hidden file skipped", where(path))
        elif PurePosixPath(path).suffix.lower() not in ENDINGS:
            notes.add("file without the ending of an image skipped", where(path))
        else:
            images.append(path)
    return images
