"""uvicorn's HTTP/1.1 with h11, and with the limits that it leaves out: slow headers, slow readers, many connections."""

import asyncio
import json
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serving.limits import Limits
from regard.serving.refusal import Refusal

MOST_INCOMPLETE = 4  # times the cap of headers that h11 may hold before the gate has seen them


def protocol_with(limits: Limits) -> type[H11Protocol]:
    class Protocol(LimitedProtocol):
        pass

    Protocol.limits = limits
    return Protocol


class LimitedProtocol(H11Protocol):
    limits: Limits
    deadline: asyncio.TimerHandle | None = None  # of what arrives
    patience: asyncio.TimerHandle | None = None  # with a client that does not read

    def connection_made(self, transport: Any) -> None:  # as uvicorn has it
        super().connection_made(transport)
        # Any byte that waits counts as not read: what lies below a higher mark would keep the connection forever.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self.limits.connections:
            most = self.limits.connections
            message = f"at most {most:,} connections at once (the server's cap connections)"
            self.refuse(Refusal(429, message, code="connections", retry_after=1))
        else:
            self.expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if before is None or before.response_complete:
            self.expect()
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not before:
            self.forget()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # refused, and still sending: what comes is not read
            self.expect()

    # Time to arrive.

    def expect(self) -> None:
        if self.deadline is None:
            self.deadline = self.loop.call_later(self.limits.read_seconds, self.give_up)

    def forget(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def give_up(self) -> None:
        self.deadline = None
        if self.cycle is not None and not self.transport.is_closing():
            self.transport.abort()
            return
        seconds = f"{self.limits.read_seconds:g} s"
        self.refuse(Refusal(408, f"the request took longer than {seconds} (the server's cap read_seconds)"))

    # Time to read.

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.patience is None:
            self.patience = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None
        super().resume_writing()

    # Answers without a request.

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        is_too_large = isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431
        most = self.limits.header_bytes
        if is_too_large:
            refusal = Refusal(431, f"the headers: at most {most:,} bytes (the server's cap header_bytes)")
        else:
            refusal = Refusal(400, "this is not HTTP/1.1")
        self.refuse(refusal)

    def refuse(self, refusal: Refusal) -> None:
        body = json.dumps(refusal.record()).encode()
        headers = {"content-type": "application/json", "connection": "close", **refusal.headers}
        headers["content-length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if self.cycle is None or self.cycle.response_complete:  # otherwise it would stand amid another answer
            phrase = "Refused"
            self.transport.write(f"HTTP/1.1 {refusal.status} {phrase}\r\n{lines}\r\n".encode() + body)
        self.transport.close()
