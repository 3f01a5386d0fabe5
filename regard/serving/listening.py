"""A server at work: uvicorn on a socket, until SIGTERM or Ctrl-C, and an orderly end."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from regard.serving.app import Server
from regard.serving.protocol import MOST_INCOMPLETE, protocol_with

log = logging.getLogger("regard.serving")
SWITCH = 0.001  # seconds after which a model's thread gives way to the one that answers; Python's own are 0.005
INTERRUPTED = 130  # the exit status after Ctrl-C
GRACE = 3  # seconds that answers to what was given up take to leave


class Listener(uvicorn.Server):
    """uvicorn's server, with an end that takes a stated time and is no failure: SIGTERM exits with 0."""

    def __init__(self, server: Server) -> None:
        limits = server.limits
        config = uvicorn.Config(
            server.app,
            http=protocol_with(limits),
            ws="none",
            lifespan="on",
            loop="asyncio",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type]  # it is given to call_later
            timeout_graceful_shutdown=int(limits.stop_seconds) + GRACE,
            h11_max_incomplete_event_size=MOST_INCOMPLETE * limits.header_bytes,
        )
        super().__init__(config)
        self.server = server
        self.was_interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.was_interrupted = sig == signal.SIGINT
        log.info("stopping; what runs has %g s to finish", self.server.limits.stop_seconds)
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise the signal again after the end, and the process would die of it."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
            # The end has begun: a second SIGTERM does not turn it into a failure.
            signal.signal(signal.SIGTERM, signal.SIG_IGN if self.should_exit else before[signal.SIGTERM])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = asyncio.create_task(self.server.service.admission.stop())
        await super().shutdown(sockets)
        stopping.cancel()
        log.info("stopped")


def listen(server: Server, place: socket.socket) -> None:
    """Until SIGTERM; Ctrl-C is raised again when all is done."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what was loaded stays: a full collection would look through all of it, for a quarter of a second
    listener = Listener(server)
    listener.run([place])
    if not listener.started:
        raise SystemExit(1)
    if server.service.is_working:  # on what nobody waits for any more: all were told
        logging.shutdown()
        os._exit(INTERRUPTED if listener.was_interrupted else 0)
    if listener.was_interrupted:
        raise KeyboardInterrupt
