"""Tables on the terminal.  Cells are texts: nothing in them is taken for a style."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], title: str = "", are_numbers: bool = False
) -> None:
    """Where all columns after the first are numbers, they are aligned right.  An empty row draws a line."""
    table = Table(title=Text(title) if title else None)
    for i, heading in enumerate(headings):
        table.add_column(Text(heading), justify="right" if i and are_numbers else "left")
    for row in rows:
        if row:
            table.add_row(*map(Text, row))
        else:
            table.add_section()
    Console().print(table)
