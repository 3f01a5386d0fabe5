"""Lines in, lines out: a line ends at \\n only, and every line in gives a line out."""

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from regard.errors import DataError

AT_A_TIME = 5_000  # lines answered together, so that a long file streams

A = TypeVar("A")


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


def answered(file: Path | None, answer: Callable[[list[str]], Sequence[A]]) -> Iterator[tuple[int, str, A]]:
    """Number, line and answer of every line; lines are answered in groups, on a terminal one by one."""
    lines = read_lines(file)
    at_a_time = 1 if file is None and sys.stdin.isatty() else AT_A_TIME
    number = 0
    while group := list(islice(lines, at_a_time)):
        for line, one in zip(group, answer(group), strict=True):
            number += 1
            yield number, line, one
        sys.stdout.flush()


def say_notes(number: int, notes: list[str]) -> None:
    """What happened to a line, to standard error."""
    if notes:
        print(f"line {number}: {', '.join(notes)}", file=sys.stderr)


def write_line(text: str) -> None:
    """One line of output: line ends inside the text are written as \\n, so that line i answers line i."""
    sys.stdout.write(text.replace("\n", "\\n").replace("\r", "\\r") + "\n")
