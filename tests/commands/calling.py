"""The command line called as a user calls it, but within this process."""

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from typer.core import TyperGroup

from regard.__main__ import build, main

COLUMNS = "200"
DETECTION = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"  # of the shell: what the program's options depend on


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@cache
def built(detection: str | None) -> TyperGroup:
    """The program: to build it is most of what a short call takes, and it is the same for all of them."""
    return build()


def call(place: Path, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
    """`regard ARGUMENTS < stdin` in the folder `place`, within this process."""
    streams = [
        io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="", errors=errors)
        for content, errors in ((stdin, "strict"), (b"", "strict"), (b"", "backslashreplace"))  # as Python opens them
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("COLUMNS", COLUMNS)
        patch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        patch.setattr("regard.__main__.build", lambda: built(os.environ.get(DETECTION)))
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    texts = []
    for stream in streams[1:]:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Outcome(code, *texts)


def content(folder: Path) -> dict[Path, bytes]:
    """The files of a run, to see that nothing was changed."""
    return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
