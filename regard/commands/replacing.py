"""Files that a command writes: their folders exist, and none is replaced without being asked or told."""

import sys
from itertools import chain, count
from pathlib import Path

import typer

from regard.errors import RegardError


def ask_before_replacing(*paths: Path | None, overwrite: bool) -> None:
    """To be called before the work that a file is the result of; None: no file was asked for."""
    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise RegardError(f"{path}: no folder {path.parent}: make it first")
        if overwrite or not path.exists():
            continue
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise RegardError(f"{path} exists and was left as it is; give another name, or add --overwrite")
        typer.confirm(f"{path} exists: replace it?", abort=True)


def free_name(path: Path) -> Path:
    """The path, or one with a number that no file has yet: attention-2.html."""
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(name for name in chain([path], names) if not name.exists())
