"""A call within limits: in a child process of its own, ten seconds, two gibibytes, and every end of it is known.

The seconds are those of the processor, so that a busy machine does not count; by the clock there are more.
"""

import math
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS, BYTES = 10.0, 2 << 30
BY_THE_CLOCK = 6  # times the seconds of the processor
NO_ANSWER = 70  # the exit code of a child whose answer could not be sent
BUG = "This is a bug in regard"


class End(NamedTuple):
    """How a call ended: "returned" or "raised", or by a limit: "hung", "memory", "died"."""

    how: str
    value: object = None  # what was returned, or the exception's type and text

    def __str__(self) -> str:
        return f"{self.how} {self.value!r}"[:600]


def memory_used() -> int:
    """The address space of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def ended(function: Callable[[], object]) -> End:
    try:
        return End("returned", function())
    except MemoryError:
        return End("memory")
    except BaseException as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return End("raised", (kinds, str(error), traceback.format_exc()[-1500:]))


def all_bounded(functions: Sequence[Callable[[], object]]) -> list[End]:
    """Call several in one child, within the limits of one: a fork takes longer than most calls."""
    end = bounded(lambda: [tuple(ended(function)) for function in functions])
    return [End(*each) for each in end.value] if end.how == "returned" else [end] * len(functions)


def bounded(function: Callable[[], object], seconds: float = SECONDS) -> End:
    """Call a function in a forked child.  What it returns must be made of plain values."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            limit = memory_used() + BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds)))  # then SIGKILL
            with os.fdopen(writer, "wb") as file:
                pickle.dump(tuple(ended(function)), file)
            os._exit(0)
        finally:  # also where nobody reads any more: a child that came back would go on with all the other tests
            os._exit(NO_ANSWER)
    os.close(writer)
    content, deadline = b"", time.monotonic() + BY_THE_CLOCK * seconds
    with os.fdopen(reader, "rb") as file:
        while select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(file.fileno(), 1 << 20)
            content += piece
            if not piece:
                break
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return End("hung")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return End("hung")
    return End(*pickle.loads(content)) if content else End("died", status)
