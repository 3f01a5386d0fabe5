"""What a command shows on standard error while it works: only on a terminal, and gone when it is done."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

A = TypeVar("A")


def is_watched() -> bool:
    """Whether a person sees standard error while the answers go elsewhere."""
    return sys.stderr.isatty() and not sys.stdout.isatty()


@contextmanager
def working(what: str) -> Iterator[None]:
    """What is being done, and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    is_read_here = sys.stdout.isatty()  # then what is printed meanwhile goes above the line; a pipe is left alone
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=is_read_here) as progress:
        progress.add_task(what, total=None)
        yield


def counted(answers: Iterable[A], what: str) -> Iterator[A]:
    """The same answers, with how many there are so far, and how many a second."""
    if not is_watched():
        yield from answers
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description} {task.completed:,.0f}", markup=False)
    columns = (SpinnerColumn(), text, TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
        task = progress.add_task(what, total=None, rate="")
        for answer in answers:
            progress.advance(task)
            speed = progress.tasks[0].speed
            progress.update(task, rate="" if speed is None else f"{speed:,.1f}/s")
            yield answer
