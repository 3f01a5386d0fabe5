"""Runs by name, and what answers for them: all model work of a server goes through `Host`, from whichever thread."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.decoding.interface import AnyGenerator, Prompts
from regard.runs.run import Run
from regard.tasks.request import AnyRequest
from regard.tasks.setup import Use
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked

T = TypeVar("T")
LOOK_AGAIN = 0.05  # seconds after which a call that waits looks whether its client is still there


class Gone(Exception):
    """Nobody waits for this answer any more."""


class Leavable:
    """A generator that stops before its next step once its client has gone."""

    def __init__(self, generator: AnyGenerator, gone: Event) -> None:
        self.generator, self.gone = generator, gone

    @property
    def max_length(self) -> int:
        return self.generator.max_length

    @property
    def is_capturable(self) -> bool:
        return self.generator.is_capturable

    def check_room(self, n_rows: int, room: int) -> None:
        self.generator.check_room(n_rows, room)

    def start(self, prompts: Prompts, copies: int = 1, room: int = 256) -> Any:  # the state of the generator's own kind
        self.check()
        return self.generator.start(prompts, copies, room)

    def step(self, tokens: Tensor, state: Any) -> Tensor:
        self.check()
        return self.generator.step(tokens, state)

    def check(self) -> None:
        if self.gone.is_set():
            raise Gone


class Host:
    """Blocking and safe to call from several threads.  The models run in one thread of its own, a call after another;
    a stream gives way to other calls after each piece.

    `gone` is set when nobody waits any more: the call then ends with `Gone`, a search before its next step.
    """

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self.runs = dict(runs)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="regard-model")

    def answer(self, name: str, request: AnyRequest, gone: Event | None = None) -> Any:
        """What the run's verb answers: of the kind that the request's class names."""
        run, gone = self.runs[name], gone or Event()
        return self.do(lambda: run.task.verbs[request.name](self.use(run, gone), request), gone)

    def stream(self, name: str, request: AnyRequest, gone: Event | None = None) -> Iterator[str]:
        """The pieces of a text as they are written, of a verb that streams.  Closing the iterator ends the work."""
        run, gone = self.runs[name], gone or Event()
        pieces = self.do(lambda: iter(run.task.verbs[request.name](self.use(run, gone), request)), gone)
        try:
            while (piece := self.do(lambda: next(pieces, None), gone)) is not None:
                yield piece
        finally:
            gone.set()

    def look(self, name: str, source: Any, target: str | None, asked: Asked, gone: Event | None = None) -> Capture:
        """Attention; the source is of the kind that the run's task reads."""
        run, gone = self.runs[name], gone or Event()
        return self.do(lambda: run.task.look(self.use(run, gone), source, target, asked), gone)

    def use(self, run: Run, gone: Event) -> Use:
        use = run.use()
        return use._replace(generator=Leavable(use.generator, gone))

    def do(self, work: Callable[[], T], gone: Event) -> T:
        def in_turn() -> T:
            if gone.is_set():
                raise Gone
            with torch.no_grad():
                return work()

        future: Future[T] = self.thread.submit(in_turn)
        while True:
            try:
                return future.result(LOOK_AGAIN)
            except TimeoutError:
                if future.done():
                    return future.result()
                if gone.is_set() and future.cancel():
                    raise Gone from None

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)
