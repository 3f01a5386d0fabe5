"""Many clients at once, from this process: what each asks, what comes back, and how long that takes."""

import asyncio
import json
import math
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import httpx
import numpy as np
from asked import Request
from process import Process

APART = 0.02  # seconds between the first requests of two clients


@dataclass
class Tally:
    """What a load gave: statuses, answers that differ, seconds by status, memory over time."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: dict[int, list[float]] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    took: float = 0.0

    def percentile(self, status: int, share: float) -> float:
        return float(np.percentile(self.seconds[status], 100 * share))

    @property
    def growth(self) -> float:
        """The mean of the last quarter over that of the second."""
        quarters = np.array_split(np.array(self.memory, np.float64), 4)
        return float(quarters[3].mean() / quarters[1].mean())

    def __str__(self) -> str:
        rows = [f"{sum(self.statuses.values()):,} answers in {self.took:.0f} s"]
        for status in sorted(self.statuses):
            p50, p99 = (1000 * self.percentile(status, share) for share in (0.5, 0.99))
            rows.append(f"{status}: {self.statuses[status]:,}, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
        return "; ".join([*rows, f"memory {self.growth:.3f} times" if len(self.memory) >= 4 else ""])


def same(answer: object, expected: object) -> bool:
    """All texts byte for byte; numbers but for rounding, which depends on what is computed beside them."""
    if isinstance(answer, float) and isinstance(expected, float):
        return math.isclose(answer, expected, rel_tol=1e-4, abs_tol=1e-4)
    if isinstance(answer, dict) and isinstance(expected, dict):
        return answer.keys() == expected.keys() and all(same(answer[key], expected[key]) for key in answer)
    if isinstance(answer, list) and isinstance(expected, list):
        return len(answer) == len(expected) and all(map(same, answer, expected))
    return answer == expected


class Connection:
    """One that is kept.  A client for everything takes more time for a request than the server does, and it shares the
    server's cores: what was measured would be the client."""

    def __init__(self, port: int, headers: Mapping[str, str] | None = None) -> None:
        self.port = port
        given = {"Host": "localhost", "Content-Type": "application/json", **(headers or {})}
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in given.items())

    async def __aenter__(self) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        head = f"POST {path} HTTP/1.1\r\n{self.headers}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        status, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
        (length,) = (line.partition(":")[2] for line in lines if line.startswith("content-length:"))
        return int(status.split()[1]), await self.reader.readexactly(int(length))


def load(
    server: Process,
    requests: Sequence[Request],
    n_clients: int,
    is_enough: Callable[[Tally], bool],
    pause: float = 0.0,
    headers: Mapping[str, str] | None = None,
) -> Tally:
    """Every client asks one after another, each beginning elsewhere in the list, until it is enough."""
    tally = Tally()
    sent = [(path, json.dumps(body).encode(), expected) for path, body, expected in requests]

    async def ask(i: int) -> None:
        await asyncio.sleep(i * APART)
        async with Connection(server.port, headers) as connection:
            while not is_enough(tally):
                path, body, expected = sent[i % len(sent)]
                began = time.monotonic()
                status, answer = await connection.post(path, body)
                tally.statuses[status] += 1
                tally.seconds.setdefault(status, []).append(time.monotonic() - began)
                if status == 200 and not same(json.loads(answer), expected):
                    tally.wrong.append(path)
                tally.took = time.monotonic() - start
                i += n_clients
                await asyncio.sleep(pause)

    async def watch() -> None:
        while True:
            tally.memory.append(server.memory)
            await asyncio.sleep(0.5)

    async def run() -> None:
        watching = asyncio.ensure_future(watch())
        await asyncio.gather(*map(ask, range(n_clients)))
        watching.cancel()

    start = time.monotonic()
    asyncio.run(run())
    return tally


def milliseconds(server: Process, status: int) -> list[int]:
    """What the server itself says, by its log: from a request's headers to its answer."""
    return [int(found) for found in re.findall(rf"POST \S+ {status} (\d+) ms", server.log)]


def running(server: Process, headers: Mapping[str, str] | None = None) -> tuple[float, float]:
    """How many requests are worked on, and how many wait."""
    lines = httpx.get(f"{server.url}/metrics", headers=headers).text.splitlines()
    rows = dict(line.split() for line in lines if line.startswith("regard_") and "{" not in line)
    return float(rows["regard_running"]), float(rows["regard_waiting"])


def leave(server: Process, body: dict[str, object], seconds: float, headers: Mapping[str, str]) -> None:
    """Ask, and hang up."""
    content = json.dumps(body).encode()
    all_headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(content), **headers}
    lines = [f"{name}: {value}" for name, value in all_headers.items()]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall("\r\n".join(["POST /v1/completions HTTP/1.1", *lines, "", ""]).encode() + content)
        time.sleep(seconds)


def disconnect(server: Process, n: int, headers: Mapping[str, str] = MappingProxyType({})) -> None:
    """So many clients leave before their answer, and all places are free again."""
    for i in range(n):
        body = {"model": "language", "prompt": "The cat", "max_tokens": 60, "stream": i % 2 == 0}
        leave(server, body, 0.002 * (i % 5), headers)
    for _ in range(100):
        if running(server, headers) == (0, 0):
            break
        time.sleep(0.05)
    assert running(server, headers) == (0, 0)
    body = {"model": "language", "lines": ["the cat"]}
    assert httpx.post(f"{server.url}/v1/embed", json=body, headers=headers).status_code == 200
