"""Lines in, lines out: a line ends at \\n only, and every line in gives a line out.  And tables, for a person."""

import codecs
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from regard.commands.progress import counted, is_watched
from regard.data.notes import Notes
from regard.errors import DataError

AT_A_TIME = 5_000  # lines answered together, so that a long file streams
WATCHED = 256  # ... where a person watches how many are done
MOST_ROWS = 2_000  # of a drawn table
WIDEST = 10_000  # characters
STANDARD_INPUT = Path("-")

A = TypeVar("A")


def read_lines(path: Path | None) -> Iterator[str]:
    """The lines of a file (.gz and .xz are unpacked), or of standard input (None or -); on a terminal, with a prompt.

    A byte order mark and CRLF are not part of the text; how many were found is printed once, on standard error.
    """
    if is_typed(path):
        while True:
            try:
                yield input("> ")
            except EOFError:
                return
    notes = Notes()
    source = "standard input" if path in (None, STANDARD_INPUT) else str(path)
    with open_bytes(path) as stream:
        for number, line in enumerate(stream, start=1):  # bytes: split at \n alone, not at U+0085 or U+2028
            text = line.removesuffix(b"\n")
            if number == 1 and text.startswith(codecs.BOM_UTF8):
                text = text.removeprefix(codecs.BOM_UTF8)
                notes.add("byte order mark dropped", f"{source}:1")
            if text.endswith(b"\r"):
                text = text.removesuffix(b"\r")
                notes.add("CRLF line end read as LF", f"{source}:{number}")
            try:
                yield text.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{source}:{number}"
                raise DataError(f"{where} is not UTF-8 (byte {error.start + 1}); fix it and run again") from None
    for row in notes.rows():
        print(row, file=sys.stderr)


def open_bytes(path: Path | None) -> BinaryIO:
    """A packed file is unpacked whole; any other streams."""
    from regard.data.files.reading import UNPACKERS, read_bytes

    if path is None or path == STANDARD_INPUT:
        return sys.stdin.buffer
    if not path.is_file():
        raise DataError(f"no file {path}")
    return io.BytesIO(read_bytes(path)) if path.suffix.lower() in UNPACKERS else path.open("rb")


def is_typed(path: Path | None) -> bool:
    """Whether somebody types the lines at a terminal."""
    return path in (None, STANDARD_INPUT) and sys.stdin.isatty()


def answered(
    file: Path | None, answer: Callable[[list[str]], Sequence[A]], texts: Sequence[str] | None = None
) -> Iterator[tuple[int, str, A]]:
    """Number, line and answer of every line of a file, or of the texts; lines are answered in groups, on a terminal one
    by one."""
    from regard.text.unicode import well_formed

    lines = map(well_formed, texts) if texts else read_lines(file)  # an argument may hold bytes that are no text
    at_a_time = 1 if not texts and is_typed(file) else WATCHED if is_watched() else AT_A_TIME
    yield from counted(answered_groups(lines, answer, at_a_time), "lines answered:")


def answered_groups(
    lines: Iterator[str], answer: Callable[[list[str]], Sequence[A]], at_a_time: int
) -> Iterator[tuple[int, str, A]]:
    number = 0
    while group := list(islice(lines, at_a_time)):
        for line, reply in zip(group, answer(group), strict=True):
            number += 1
            yield number, line, reply
        sys.stdout.flush()


def say_notes(number: int, notes: list[str]) -> None:
    """Print what happened to a line to standard error."""
    if notes:
        print(f"line {number}: {', '.join(notes)}", file=sys.stderr)


def write_line(text: str) -> None:
    """One line of output: line ends inside the text are written as \\n, so that output line i answers input line i."""
    sys.stdout.write(text.replace("\n", "\\n").replace("\r", "\\r") + "\n")


def short_names(runs: list[Path]) -> dict[Path, str]:
    """The last part of each path, where these differ."""
    short = {run: run.name for run in runs}
    return short if len(set(short.values())) == len(runs) else {run: str(run) for run in runs}


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", are_numbers: bool = False
) -> None:
    """Cells are texts: nothing in them is taken for a style.  Where all columns after the first are numbers, they are
    aligned right.  An empty row draws a line.  Nothing is cut: what does not fit a screen goes on below, and numbers
    that are piped may be wider.  A table that nobody reads as one is written plainly: rich takes half a millisecond for
    each row."""
    rows = list(rows)
    if len(rows) > MOST_ROWS:
        widths = [max(map(len, column)) for column in zip(headings, *filter(None, rows), strict=True)]
        for row in (headings, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())
        return
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(title=Text(title) if title else None)
    for i, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if i and are_numbers else "left", overflow="fold")
    for row in rows:
        if row:
            table.add_row(*map(Text, row))
        else:
            table.add_section()
    natural = console.measure(table, options=console.options.update_width(WIDEST)).maximum
    if natural > console.width and are_numbers and not console.is_terminal:
        console = Console(width=natural)
    elif natural > console.width:
        first, *others = zip(headings, *filter(None, rows), strict=True)
        longest = max(map(cell_len, first))
        if are_numbers:  # they stay whole, and so does a name, where there is room
            table.box, table.padding = SIMPLE_HEAD, (0, 1, 0, 0)
            for column, (heading, *cells) in zip(table.columns[1:], others, strict=True):
                column.width = max(map(cell_len, [*heading.split(), *cells]))
        elif longest <= console.width // 2:
            table.columns[0].width = longest
    console.print(table)
