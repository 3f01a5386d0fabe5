"""Files that are whole or absent: a kill or a full disk never leaves half of one."""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import RunError

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}


def write_through(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, content: bytes) -> None:
    """Replace a file at once: written beside it, then renamed over it."""
    beside = path.with_name(f".{path.name}.writing")
    try:
        write_through(beside, content)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    os.replace(beside, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, after a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors_said(folder: Path, intact: Callable[[], str]) -> Iterator[None]:
    """A full or broken disk becomes an error that says what is safe."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        where = error.filename or folder
        raise RunError(
            f"cannot write {where}: {os.strerror(error.errno or 0)}. {intact()} "
            f"Free some space, then: {resume_command(folder)}"
        ) from error


@contextmanager
def only_one(folder: Path, waits: bool = False) -> Iterator[None]:
    """Two trainings in one folder would write over each other, from the tokenizer on: hold this while one is prepared
    and while it runs.  The lock ends with the process, however that ends.  `waits`: until the other one is done."""
    folder.mkdir(parents=True, exist_ok=True)
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(place)
        raise RunError(
            f"another process is training in {folder}: wait for it, or stop it; this one changed nothing"
        ) from None
    try:
        yield
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()  # refused before anything was written
        os.close(place)


@contextmanager
def left_as_found(folder: Path) -> Iterator[None]:
    """What is refused adds nothing to a folder: half a run would look like one that was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    try:
        yield
    except Exception:
        for path in set(folder.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def resume_command(folder: Path) -> str:
    return f"regard train {folder} --resume"
