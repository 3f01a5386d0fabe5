"""Files of a known data set, found in a folder or an archive by what is in them, and put where recipes look."""

import gzip
import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.data.files.reading import UNPACKERS
from regard.data.sets import DataSet
from regard.errors import DataError

LARGEST = 4 * 2**30  # bytes of a file that is looked into
PACKERS: dict[str, Callable[[bytes], bytes]] = {".xz": lambda data: lzma.compress(data, preset=2), ".gz": gzip.compress}


class SourceFile(NamedTuple):
    """A file that was given, or a member of an archive."""

    name: str
    data: bytes  # as it is, packed or not

    @property
    def packing(self) -> str:
        return packing_of(self.name)

    def unpacked(self) -> bytes:
        return UNPACKERS[self.packing](self.data) if self.packing else self.data


def packing_of(name: str) -> str:
    """ ".xz", ".gz", or ""."""
    ending = PurePosixPath(name).suffix.lower()
    return ending if ending in PACKERS else ""


def plain_name(name: str) -> str:
    return name.removesuffix(PurePosixPath(name).suffix) if packing_of(name) else name


def bring(known: DataSet, source: Path, root: Path, is_unchecked: bool, may_overwrite: bool) -> dict[str, str]:
    """What became of each file of the set, in words.  Nothing is written where one of them is not what it should be."""
    matches, wrong = match_files(known, source, is_unchecked)
    wrong = {file: problem for file, problem in wrong.items() if file not in matches}
    if wrong:
        why = (
            "The known sums are of our own copy, which has another form than the original download"
            if known.own_form
            else "It is not what the shipped recipes were measured with"
        )
        form = f" What recipes read: {known.get}." if known.own_form else ""
        raise DataError(
            f"{'; '.join(wrong.values())}. Nothing was written. {why}; if yours has the form that recipes read and "
            f"you want it all the same, add --unchecked.{form}"
        )
    if not matches:
        raise DataError(f"{source} has none of the files of {known.name}: {', '.join(known.files)}.{form_of(known)}")
    states = {}
    for file in known.files:
        if file in matches:
            is_checked = hashlib.sha256(matches[file].unpacked()).hexdigest() == known.files[file]
            state = put(matches[file], root / known.name / file, may_overwrite)
            states[file] = f"{state}; {'its sum is right' if is_checked else 'its sum was not checked'}"
        else:
            states[file] = "missing"
    return states


def form_of(known: DataSet) -> str:
    """What the files must be like, and how to bring those that somebody made."""
    if not known.own_form:
        return ""
    names = ", ".join(plain_name(file) for file in known.files)
    how = f"make {names} of the original, packed or not, and add --unchecked, as their sums are not ours"
    return f" What recipes read: {known.get}. If you have only the original, {how}."


def match_files(known: DataSet, source: Path, is_unchecked: bool) -> tuple[dict[str, SourceFile], dict[str, str]]:
    """By file of the set: what was found for it, by its content whatever its name, and what has its name alone."""
    by_sum = {digest: file for file, digest in known.files.items() if digest}
    by_name = {plain_name(file): file for file in known.files}
    matches: dict[str, SourceFile] = {}
    wrong: dict[str, str] = {}
    for source_file in files_in(source):
        named = by_name.get(plain_name(source_file.name), "")
        try:
            digest = hashlib.sha256(source_file.unpacked()).hexdigest()
        except (DataError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            if named:
                wrong[named] = f"{source_file.name} cannot be unpacked ({error})"
            continue
        if digest in by_sum:
            matches[by_sum[digest]] = source_file
        elif named and (is_unchecked or not known.files[named]):
            matches.setdefault(named, source_file)
        elif named:
            wrong[named] = f"{source_file.name} has the SHA-256 {digest[:16]}…, not {known.files[named][:16]}…"
    return matches, wrong


def files_in(source: Path) -> Iterator[SourceFile]:
    """A folder's files, also in folders inside; a file itself and, of an archive, its members."""
    if not source.exists():
        raise DataError(f"no file or folder {source}; check its name")
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_file() and path.stat().st_size <= LARGEST:
            yield SourceFile(path.name, path.read_bytes())
    if source.is_file() and zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.file_size <= LARGEST:
                    yield SourceFile(PurePosixPath(member.filename).name, archive.read(member))
    elif source.is_file() and tarfile.is_tarfile(source):
        with tarfile.open(source) as members:
            for entry in members:
                content = members.extractfile(entry) if entry.isfile() and entry.size <= LARGEST else None
                if content is not None:
                    yield SourceFile(PurePosixPath(entry.name).name, content.read())


def put(source_file: SourceFile, path: Path, may_overwrite: bool) -> str:
    """Packed as the name of the place says; what was done, in words."""
    data = source_file.data
    if source_file.packing != packing_of(path.name):
        data = PACKERS.get(packing_of(path.name), bytes)(source_file.unpacked())
    if path.exists():
        if SourceFile(path.name, path.read_bytes()).unpacked() == source_file.unpacked():
            return "already there"
        if not may_overwrite:
            raise DataError(f"{path} exists with another content, and was left as it is; replace it with --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)
    return "put in place"
