"""Files of more lines than memory should hold: they are read again whenever their texts are asked for."""

import codecs
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from regard.data.files.arrow import ARROW_KINDS
from regard.data.files.on_disk import FileTexts, LineNumbers
from regard.data.files.reading import OPENERS, UTF_16, Examples, kind_of, named_paths, read_examples
from regard.data.files.records import TABLES, FieldRecords
from regard.data.notes import Notes
from regard.errors import DataError

BLOCK = 2**22  # bytes read at a time


def stream_lines(path: Path, notes: Notes) -> Iterator[str]:
    """The same lines and notes as `read_lines` gives, in constant memory."""
    number = 1  # of the first line in `rest`
    try:
        with OPENERS.get(path.suffix.lower(), lambda plain: plain.open("rb"))(path) as file:
            rest = file.read(len(codecs.BOM_UTF8))
            if rest == codecs.BOM_UTF8:
                rest = b""
                notes.add("byte order mark dropped", f"{path.name}:1")
            is_last = False
            while not is_last:
                block = file.read(BLOCK)
                is_last = not block
                whole, end, rest = (rest + block).rpartition(b"\n")
                if is_last and rest:
                    whole, end, rest = whole + end + rest, b"\n", b""
                if end:
                    yield from lines_of(whole, path, number, notes)
                    number += whole.count(b"\n") + 1
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}; it may be incomplete: copy or download it again") from None


def lines_of(block: bytes, path: Path, number: int, notes: Notes) -> list[str]:
    """Whole lines, of which the first has this number."""
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        is_other = number == 1 and block.startswith(UTF_16)
        hint = "save it as UTF-8" if is_other else "fix the line or convert the file to UTF-8"
        kind = "UTF-16" if is_other else f"not UTF-8 (byte 0x{block[error.start]:02x})"
        number += block.count(b"\n", 0, error.start)
        raise DataError(f"{path}:{number} is {kind}; {hint}") from None
    lines = text.split("\n")
    if "\r" in text:
        for i, line in enumerate(lines):
            if line.endswith("\r"):
                lines[i] = line[:-1]
                notes.add("CRLF line end read as LF", f"{path.name}:{number + i}")
    return lines


def has_more_lines(paths: Sequence[Path], n: int, n_beside: int = 1) -> bool:
    """Whether some text files or tables, of which so many go side by side, have more than n lines; no more is read than
    it takes to know.  False where one of them cannot be read line by line, or is not there."""
    if not all(path.is_file() and kind_of(path) not in ARROW_KINDS for path in paths):
        return False
    counted, total = paths[::n_beside], 0
    are_packed = any(path.suffix.lower() in OPENERS for path in counted)
    if not are_packed and sum(path.stat().st_size for path in counted) <= n:  # a line takes a byte or more
        return False
    for path in counted:
        try:
            with OPENERS.get(path.suffix.lower(), lambda plain: plain.open("rb"))(path) as file:
                while block := file.read(BLOCK):
                    total += block.count(b"\n")
                    if total > n:
                        return True
        except (EOFError, OSError, lzma.LZMAError, zlib.error):
            return False  # whoever reads it says what is wrong
    return False


def digest_of(paths: Sequence[Path], columns: Sequence[str]) -> str:
    """Says which texts these columns of these files, or all their lines, are."""
    key = hashlib.blake2b(digest_size=16)
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        key.update(f"{kind_of(path)} {content}\n".encode())
    key.update("\n".join(columns).encode("utf-8", "surrogateescape"))
    return key.hexdigest()


def read_group(paths: Sequence[Path], columns: tuple[str, ...], notes: Notes) -> FieldRecords:
    """The records of a table, or of plain files of which line i belongs to line i of the others."""
    if kind_of(paths[0]) in TABLES and columns:
        yield from TABLES[kind_of(paths[0])](stream_lines(paths[0], notes), columns, paths[0], notes)
        return
    for number, lines in enumerate(zip_longest(*(stream_lines(path, notes) for path in paths)), start=1):
        if None in lines:
            counts = ", ".join(f"{path} has {n_lines(path):,}" for path in paths)
            raise DataError(
                f"line i of one file goes with line i of the other, but {counts} lines; align the files again"
            )
        yield list(lines), number


def n_lines(path: Path) -> int:
    return sum(1 for _ in stream_lines(path, Notes()))


def read_sized(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str, in_memory: int | None) -> Examples:
    """`read_examples`, or, of files with more lines than `in_memory`, examples whose texts stay in the files."""
    if in_memory is None:
        return read_examples(files, columns, root)
    paths, names = named_paths(files, columns, root)
    is_plain = kind_of(paths[0]) not in TABLES
    if not (columns or is_plain) or not has_more_lines(paths, in_memory, len(names) if is_plain else 1):
        return read_examples(files, columns, root)
    return read_large(paths, names, columns)


def read_large(paths: list[Path], names: tuple[str, ...], columns: tuple[str, ...]) -> Examples:
    """As `read_examples` reads them, but for the texts, which stay in the files."""
    size = 1 if kind_of(paths[0]) in TABLES else len(names)
    groups = [paths[i : i + size] for i in range(0, len(paths), size)]
    notes, numbers, starts, n = Notes(), LineNumbers(), [], 0
    for group in groups:
        starts.append(n)
        for _, line in read_group(group, columns, notes):
            numbers.add(n, line)
            n += 1
    if not n:
        raise DataError(f"{', '.join(str(path) for path in paths)}: no lines at all; check the files")

    def column(c: int) -> Callable[[], Iterator[str]]:
        def read() -> Iterator[str]:
            for group in groups:
                if columns and kind_of(group[0]) in TABLES:
                    yield from (fields[c] for fields, _ in read_group(group, columns, Notes()))
                else:
                    yield from stream_lines(group[c], Notes())

        return read

    texts: list[Sequence[str]] = [FileTexts(column(c), n) for c in range(len(names))]
    files = [path.name for path in paths]
    return Examples(names, texts, numbers, files, starts, notes, digest_of(paths, columns))
