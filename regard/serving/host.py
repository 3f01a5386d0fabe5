"""Runs by name, and what answers for them: all model work of a server goes through `Host`, from whichever thread."""

from collections.abc import Iterator, Mapping
from threading import Event
from typing import Any

import torch

from regard.runs.run import Run
from regard.serving.stepping import Gone, SharedEngine, Stepper, TurnLock
from regard.serving.usage import Usage
from regard.tasks.request import AnyRequest
from regard.tasks.setup import Use
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus


class Host:
    """Blocking and safe to call from several threads.  Model work is done in turns; the searches of all calls run side
    by side in their run's engine.

    `gone` is set when nobody waits any more: the call then ends with `Gone`, and its searches after their next step.
    `usage` gets the tokens that are read and written.
    """

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self.runs = dict(runs)
        self.turns = TurnLock()
        self.stepper = Stepper(self.turns)

    @torch.no_grad()
    def answer(self, name: str, request: AnyRequest, gone: Event | None = None, usage: Usage | None = None) -> Any:
        """What the run's verb answers: of the kind that the request's class names."""
        run, gone = self.runs[name], gone or Event()
        with self.turns:
            return run.task.verbs[request.name](self.use(run, gone, usage), request)

    def stream(
        self, name: str, request: AnyRequest, gone: Event | None = None, usage: Usage | None = None
    ) -> Iterator[str]:
        """The pieces of a text as they are written, of a verb that streams.  Closing the iterator ends the work."""
        run, gone = self.runs[name], gone or Event()
        pieces: Iterator[str] | None = None
        try:
            while True:
                with self.turns, torch.no_grad():
                    if pieces is None:
                        pieces = iter(run.task.verbs[request.name](self.use(run, gone, usage), request))
                    piece = next(pieces, None)
                if piece is None:
                    return
                yield piece
        finally:
            gone.set()

    @torch.no_grad()
    def look(self, name: str, source: Any, target: str | None, focus: Focus, gone: Event | None = None) -> Capture:
        """Attention; the source is of the kind that the run's task reads."""
        run, gone = self.runs[name], gone or Event()
        with self.turns:
            return run.task.look(self.use(run, gone), source, target, focus)

    def use(self, run: Run, gone: Event, usage: Usage | None = None) -> Use:
        if gone.is_set():
            raise Gone
        use = run.use()
        return use._replace(engine=SharedEngine(use.engine, self.stepper, gone, usage or Usage()))

    def close(self) -> None:
        self.stepper.close()
