"""SIGTERM and Ctrl-C end a training between two steps, after a checkpoint."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from regard.errors import RegardError
from regard.processes import ALONE, Processes

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopped(RegardError):
    """The user or the system asked the training to end."""

    opening = ""  # what was asked for is no error

    def __init__(self, number: int, message: str, is_between_steps: bool) -> None:
        super().__init__(message)
        self.number = number
        self.is_between_steps = is_between_steps  # otherwise the weights may be half updated
        self.exit_code = 128 + number  # 130 for Ctrl-C, 143 for SIGTERM


class Signals:
    """The first signal is remembered until `check`, or breaks off at once what is `interruptible`; a second one ends
    the training where it is, which costs the steps since the last checkpoint."""

    def __init__(self, processes: Processes = ALONE) -> None:
        self.processes = processes  # all stop after the same step
        self.received: int | None = None
        self.is_interruptible = False
        self.before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers only there
            self.before = {number: signal.signal(number, self.receive) for number in NAMES}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        name = NAMES[signal.Signals(number)]
        if self.received is not None:
            raise Stopped(number, f"stopped immediately by a second {name}", is_between_steps=False)
        self.received = number
        # not by print, which the signal may have come in the middle of
        os.write(2, f"\n{name}: finishing the step and saving; send it again to stop immediately\n".encode())
        if self.is_interruptible:
            self.check()

    def check(self) -> None:
        """Raise if a signal has come, to this process or to another."""
        if self.processes.total([self.received or 0])[0]:
            self.received = max(self.processes.gather(self.received or 0))
            name = NAMES[signal.Signals(self.received)]
            raise Stopped(self.received, f"stopped by {name}", is_between_steps=True)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        if self.processes.n > 1:  # the others would wait for what is broken off
            yield
            return
        self.is_interruptible = True
        try:
            self.check()
            yield
        finally:
            self.is_interruptible = False
