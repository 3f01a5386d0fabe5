"""Archives read in place: tar, packed or not, and zip.  Nothing is unpacked onto the disk, and no link is followed."""

import gzip
import io
import lzma
import mmap
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BufferedIOBase
from os.path import commonpath
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from regard.data.files.reading import kind_of
from regard.data.images.opening import MOST_BYTES
from regard.data.images.sources import ImageSource, images_among
from regard.data.notes import Notes
from regard.errors import DataError, RegardError
from regard.memory import check_memory, free_memory

STEP = 2**24  # bytes unpacked at a time
PACKERS: dict[bytes, Callable[[Path], BufferedIOBase]] = {b"\x1f\x8b": gzip.GzipFile, b"\xfd7zXZ\0": lzma.LZMAFile}
BROKEN = (
    *(EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, struct.error),
    *(ValueError, OverflowError, RuntimeError),  # of numbers, names and kinds that cannot be
)
Members = dict[str, tuple[int, int]]  # where each plain file begins, or which one it is, and how many bytes it has


@contextmanager
def faults_named(where: str) -> Iterator[None]:
    """What the readers of archives raise becomes an error that says which file is broken."""
    try:
        yield
    except RegardError:
        raise
    except BROKEN as error:
        raise DataError(f"{where} cannot be read: {error}; it may be incomplete: copy or download it again") from None


class Archive(ImageSource):
    """Images by the names of an archive's members; what could lead out of it is refused."""

    def __init__(self, path: Path):
        self.path = path
        self.members: Members = {}

    def admit(self, name: str, begin: int, n_bytes: int) -> None:
        """A plain file of the archive."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise self.refused(name, "has a path that leads out of the archive")
        if path.as_posix() in self.members:
            raise self.refused(name, "is in the archive twice")
        self.members[path.as_posix()] = (begin, n_bytes)

    def refused(self, name: str, why: str) -> DataError:
        return DataError(f"{self.where(name)} {why}, so nothing of {self.file} is used; pack it again without it")

    def where(self, name: str) -> str:
        return f"{self.file}:{name}"

    def find(self, name: str) -> str | None:
        """By its whole name, or by its name in the one folder that holds all."""
        path = PurePosixPath(name)
        candidates = (path.as_posix(), (self.folder / path).as_posix())
        return next((known for known in candidates if known in self.members), None)

    @cached_property
    def folders(self) -> set[PurePosixPath]:
        """That have images."""
        return {PurePosixPath(name).parent for name in self.names(Notes())}

    @cached_property
    def folder(self) -> PurePosixPath:
        """The innermost that holds all images."""
        return PurePosixPath(commonpath(self.folders)) if self.folders else PurePosixPath()

    def inside(self, name: str) -> str:
        """A folder that holds images itself is that of a class, so it belongs to the name."""
        shared = self.folder.parent if self.folder in self.folders else self.folder
        return PurePosixPath(name).relative_to(shared).as_posix()

    def names(self, notes: Notes) -> list[str]:
        return images_among(list(self.members), notes, self.where)


class Tar(Archive):
    """A packed one cannot be read from the middle: it is unpacked once, into memory."""

    def __init__(self, path: Path):
        super().__init__(path)
        with faults_named(str(path)):
            self.data = unpack(path)
            with io.BytesIO(self.data) if isinstance(self.data, bytes) else path.open("rb") as file:
                self.list_members(file)

    def list_members(self, file: BinaryIO) -> None:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    raise self.refused(member.name, "is a link or a special file")
                self.admit(member.name, member.offset_data, member.size)
            end = archive.offset
        # `tarfile` takes a broken member for the end: at the end there is a block of zeros.
        if self.data[end : end + tarfile.BLOCKSIZE] != bytes(tarfile.BLOCKSIZE):
            raise EOFError(f"it breaks off after {len(self.members):,} files")

    def raw(self, name: str) -> bytes:
        begin, n_bytes = self.members[name]
        return self.data[begin : begin + n_bytes]


def unpack(path: Path) -> bytes | mmap.mmap:
    """All of a file: mapped, or in memory where it is packed."""
    with path.open("rb") as file:
        beginning = file.read(8)
        packer = next((packer for magic, packer in PACKERS.items() if beginning.startswith(magic)), None)
        if packer is None:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if beginning else b""
    pieces, n_bytes, free = [], 0, free_memory()
    with packer(path) as packed:
        while piece := packed.read(STEP):
            n_bytes += len(piece)
            if 2 * n_bytes > free:  # the pieces, and all of them joined
                check_memory(2 * n_bytes, f"{path}, unpacked,", "unpack it into a folder and name the folder")
            pieces.append(piece)
    return b"".join(pieces)


class Zip(Archive):
    def __init__(self, path: Path):
        super().__init__(path)
        with faults_named(str(path)):
            self.archive = zipfile.ZipFile(path)
        for i, member in enumerate(self.archive.infolist()):
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                raise self.refused(member.filename, "is a link or a special file")
            if member.flag_bits & 1:
                raise self.refused(member.filename, "is encrypted")
            self.admit(member.filename, i, member.file_size)

    def raw(self, name: str) -> bytes:
        """No more than the archive's list says: that is what was admitted."""
        number, n_bytes = self.members[name]
        if n_bytes > MOST_BYTES:
            raise DataError(
                f"{self.where(name)} has {n_bytes:,} bytes, and an image may have {MOST_BYTES:,}; take it out"
            )
        with faults_named(self.where(name)), self.archive.open(self.archive.infolist()[number]) as file:
            data = file.read(n_bytes)
            if len(data) != n_bytes:
                raise EOFError(f"it has {len(data):,} bytes of {n_bytes:,}")
            return data


ARCHIVES: dict[str, type[Tar] | type[Zip]] = {".tar": Tar, ".tgz": Tar, ".txz": Tar, ".zip": Zip}


def open_archive(path: Path) -> Archive:
    return ARCHIVES[kind_of(path)](path)
