"""Connections over a socket with a tiny buffer: a client that does not read loses its connection, and its places."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from regard.runs.run import Run
from regard.serving.app import Server
from regard.serving.limits import Limits
from regard.serving.protocol import protocol_with

LIMITS = Limits(write_seconds=0.2)
SMALL = 4096  # bytes that a socket holds


def connected(app: ASGIApp, talk: Callable[[socket.socket], Awaitable[None]]) -> bool:
    """Whether the server closed the connection by itself."""

    async def run() -> bool:
        state, (ours, theirs) = ServerState(), socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        theirs.setblocking(False)
        config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
        config.load()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: protocol_with(LIMITS)(config, state, {}), ours)
        with theirs:
            await talk(theirs)
            for _ in range(100):
                if not state.connections:
                    return True
                await asyncio.sleep(0.02)
        return False

    return asyncio.run(run())


def post(path: str, body: dict[str, object]) -> bytes:
    content = json.dumps(body).encode()
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""]).encode() + content


@pytest.mark.parametrize("n_bytes", [20_000, 10_000_000])
def test_an_answer_that_is_not_read(n_bytes: int) -> None:
    """Also one that fits what asyncio would keep without a word (64 KiB)."""

    async def ask(connection: socket.socket) -> None:
        await asyncio.get_running_loop().sock_sendall(connection, post("/", {}))

    assert connected(Response(b"a" * n_bytes), ask)


def test_who_reads_late_but_in_time_gets_all() -> None:
    n_read = 0

    async def ask(connection: socket.socket) -> None:
        nonlocal n_read
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(connection, post("/", {}))
        await asyncio.sleep(0.05)
        while n_read < 100_000:
            n_read += len(await loop.sock_recv(connection, 2**16))
        await asyncio.sleep(3 * LIMITS.write_seconds)

    assert not connected(Response(b"a" * 100_000), ask) and n_read > 100_000


def test_a_stream_that_is_not_read_frees_its_places(runs: dict[str, Run]) -> None:
    server = Server({"language": runs["language"]}, LIMITS)
    host, admission = server.service.host, server.service.admission

    async def ask(connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        body = {"model": "language", "prompt": "The cat", "max_tokens": 40, "stream": True}
        await loop.sock_sendall(connection, post("/v1/completions", body))
        assert await loop.sock_recv(connection, 12) == b"HTTP/1.1 200"  # it has begun

    assert connected(server.app, ask)
    assert not admission.turns and not admission.queue and not host.stepper.waiters
    assert runs["language"].engine.is_idle
    admission.close()
    host.close()
