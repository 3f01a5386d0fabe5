"""Lines in, lines out: a line ends at \\n only, and every line in gives a line out."""

import sys
from collections.abc import Iterator
from pathlib import Path

from regard.errors import DataError


def read_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file, or of standard input; on a terminal, with a prompt."""
    if path is None and sys.stdin.isatty():
        while True:
            try:
                yield input("> ")
            except EOFError:
                return
    if path is not None and not path.is_file():
        raise DataError(f"no file {path}")
    stream = sys.stdin.buffer if path is None else path.open("rb")
    with stream:
        for number, line in enumerate(stream, start=1):  # bytes: split at \n alone, not at U+0085 or U+2028
            try:
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                where = path or "standard input"
                raise DataError(
                    f"{where}:{number} is not UTF-8 (byte {error.start + 1}); mend it and run again"
                ) from None


def write_line(text: str) -> None:
    """One line of output: line ends inside the text are written as \\n, so that line i answers line i."""
    sys.stdout.write(text.replace("\n", "\\n").replace("\r", "\\r") + "\n")
