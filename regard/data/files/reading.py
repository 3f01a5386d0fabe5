"""Text files and tables → examples.  A line ends at \\n only; anything odd is an error or a counted note."""

import bisect
import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import accumulate
from pathlib import Path

import numpy as np

from regard.data.files.arrow import ARROW_KINDS, json_rows
from regard.data.files.on_disk import LineNumbers, pick
from regard.data.files.records import TABLES
from regard.data.notes import Notes
from regard.data.sets import how_to_get
from regard.errors import ConfigError, DataError

ColumnTexts = tuple[list[list[str]], list[int]]  # the texts of each column, and the line number of each record
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass
class Examples:
    """Columns of equal length: `columns[c][i]` is column c of example i, found at `where(i)` in the files."""

    names: tuple[str, ...]
    columns: Sequence[Sequence[str]]
    line_numbers: np.ndarray | LineNumbers  # of each example, counted from 1
    files: list[str] = field(default_factory=list)  # each table, or each group of plain files, a file per column ...
    starts: list[int] = field(default_factory=list)  # ... and the first example that each table or group gave
    notes: Notes = field(default_factory=Notes)
    digest: str = ""  # of texts that stay in their files: says which they are

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, i: int) -> tuple[str, ...]:
        return tuple(column[i] for column in self.columns)

    def take(self, places: np.ndarray) -> "Examples":
        """Those at these places (ascending), each still known by its line; what was noted stays with the whole."""
        starts = [int(np.searchsorted(places, start)) for start in self.starts]
        columns = [pick(column, places) for column in self.columns]
        numbers = np.array([self.line_numbers[i] for i in places], np.int64)
        return Examples(self.names, columns, numbers, self.files, starts)

    def where(self, i: int, column: int = 0) -> str:
        """The place of example i, in the file that has this column, as "train.en:123"."""
        group = bisect.bisect_right(self.starts, i) - 1
        n = len(self.files) // len(self.starts)  # files of a group; a table is alone
        return f"{self.files[group * n + column % n]}:{self.line_numbers[i]}"


def read_lines(path: Path | str, notes: Notes | None = None, encoding: str = "utf-8") -> list[str]:
    """The lines of a text file (.gz and .xz are unpacked), without their ends; CRLF and a BOM are noted.  Rows of
    Parquet and Arrow files are lines of JSON."""
    path, notes = Path(path), Notes() if notes is None else notes
    if kind_of(path) in ARROW_KINDS:
        return json_rows(path)
    data = read_bytes(path)
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
        notes.add("byte order mark dropped", f"{path.name}:1")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8" if data.startswith(UTF_16) else "fix the line or convert the file to UTF-8"
        kind = "UTF-16" if data.startswith(UTF_16) else f"not {encoding.upper()} (byte 0x{data[error.start]:02x})"
        number = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path}:{number} is {kind}; {hint}") from None
    lines = text.split("\n")
    if not lines[-1]:  # the last line end ends a line, it does not begin another
        lines.pop()
    if "\r\n" in text or text.endswith("\r"):
        for i, line in enumerate(lines):
            if line.endswith("\r"):
                lines[i] = line[:-1]
                notes.add("CRLF line end read as LF", f"{path.name}:{i + 1}")
    return lines


def unpack_xz(data: bytes) -> bytes:
    """All streams of an .xz file, or an error; `lzma.decompress` silently skips a bad one after a good one."""
    unpacked: list[bytes] = []
    while data or not unpacked:
        stream = lzma.LZMADecompressor()
        unpacked.append(stream.decompress(data))
        if not stream.eof:
            raise EOFError("it ends within a stream")
        data = stream.unused_data
        n_zeros = len(data) - len(data.lstrip(b"\0"))
        data = data[n_zeros - n_zeros % 4 :]  # the format lets zeros, four by four, follow a stream
    return b"".join(unpacked)


UNPACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": unpack_xz}
OPENERS: dict[str, Callable[[Path], BufferedIOBase]] = {".gz": gzip.GzipFile, ".xz": lzma.LZMAFile}


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """All of a file, unpacked, or so many bytes at most: then no more is unpacked."""
    try:
        if most is not None:
            with OPENERS.get(path.suffix.lower(), lambda plain: plain.open("rb"))(path) as file:
                return file.read(most)
        data = path.read_bytes()
        unpack = UNPACKERS.get(path.suffix.lower())
        return unpack(data) if unpack else data
    except FileNotFoundError:
        packed = [f"{path.name}{end}" for end in UNPACKERS if path.with_name(path.name + end).is_file()]
        usual = (
            "check its name and its folder (data.root of a recipe; --root of regard evaluate; or the folder data "
            "inside a run, which must have all files that its recipe names)"
        )
        hint = f"{packed[0]} exists: use that name" if packed else how_to_get(path) or usual
        raise DataError(f"no file {path}; {hint}") from None
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}; it may be incomplete: copy or download it again") from None


def read_columns(path: Path | str, columns: tuple[str, ...], notes: Notes | None = None) -> ColumnTexts:
    """Named columns of a .tsv, .csv or .jsonl file, and the line number of each record."""
    path, notes = Path(path), Notes() if notes is None else notes
    if not columns:
        raise ConfigError(f"{path.name} is a table: say which of its columns to use, as in columns = ['en', 'fr']")
    records = list(TABLES[kind_of(path)](read_lines(path, notes), columns, path, notes))
    return [[fields[c] for fields, _ in records] for c in range(len(columns))], [line for _, line in records]


def kind_of(path: Path) -> str:
    """The file's ending in small letters, without a .gz or .xz: ".jsonl" for train.JSONL.xz."""
    return (path.with_suffix("") if path.suffix.lower() in UNPACKERS else path).suffix.lower()


def paths_of(files: Sequence[str], root: Path | str) -> list[Path]:
    if not files:
        raise ConfigError("no files are named; set data.train, data.valid or data.test")
    return [Path(root) / name for name in files]


def named_paths(
    files: tuple[str, ...], columns: tuple[str, ...], root: Path | str
) -> tuple[list[Path], tuple[str, ...]]:
    """Where the files are, and the names of the columns; without `columns` every plain file is one, and names it."""
    paths = paths_of(files, root)
    tables = [path for path in paths if kind_of(path) in TABLES]
    if tables and len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise ConfigError(f"{tables[0].name} is a table and {other.name} is plain text; use one kind at a time")
    names = columns or tuple(path.name for path in paths)
    n = len(names)
    if not tables and len(paths) % n:
        raise ConfigError(
            f"{n} columns ({', '.join(names)}) need {n} plain files, or a multiple of it; got {len(paths)}: "
            + ", ".join(path.name for path in paths)
        )
    return paths, names


def read_examples(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str) -> Examples:
    """Tables, one after the other, or plain files in groups of one file per column."""
    paths, names = named_paths(files, columns, root)
    n, notes = len(names), Notes()
    if kind_of(paths[0]) in TABLES:
        parts = [read_columns(path, columns, notes) for path in paths]
    else:
        parts = [read_parallel(paths[i : i + n], notes) for i in range(0, len(paths), n)]
    joined = [[text for texts, _ in parts for text in texts[c]] for c in range(n)]
    numbers = np.array([number for _, line_numbers in parts for number in line_numbers])
    starts = list(accumulate((len(line_numbers) for _, line_numbers in parts[:-1]), initial=0))
    if not len(numbers):
        raise DataError(f"{', '.join(str(path) for path in paths)}: no lines at all; check the files")
    return Examples(names, joined, numbers, [path.name for path in paths], starts, notes)


def read_parallel(paths: list[Path], notes: Notes) -> ColumnTexts:
    """Files of which line i belongs to line i of the others."""
    texts = [read_lines(path, notes) for path in paths]
    for path, lines in zip(paths[1:], texts[1:], strict=True):
        if len(lines) != len(texts[0]):
            raise DataError(unequal(paths[0], texts[0], path, lines))
    return texts, list(range(1, len(texts[0]) + 1))


def unequal(path_a: Path, a: list[str], path_b: Path, b: list[str]) -> str:
    """The message for files that should have as many lines as each other: where to begin looking."""
    longer, lines = (path_a, a) if len(a) > len(b) else (path_b, b)
    first = min(len(a), len(b))
    message = (
        f"{path_a} has {len(a):,} lines but {path_b} has {len(b):,} and line i of one goes with line i of the other; "
        f"the first line without a partner is {longer.name}:{first + 1} ({lines[first][:60]!r})"
    )
    gap = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if bool(x.strip()) != bool(y.strip())), None)
    if gap is not None:
        empty = path_b if a[gap].strip() else path_a
        message += f"; the first line that is empty on one side only is {empty.name}:{gap + 1}"
    return message + "; align the files again"
