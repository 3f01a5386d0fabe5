"""Many clients at once, from this process: what each asks, what comes back, and how long that takes."""

import asyncio
import json
import math
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


APART = 0.02  # seconds between the first requests of two clients


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

    # A client each: one for all looks at all of its connections before each request, and is slower than the server.
    settings = {"base_url": server.url, "timeout": 300, "trust_env": False, "headers": headers, "verify": False}

    async def ask(i: int) -> None:
        await asyncio.sleep(i * APART)
        async with httpx.AsyncClient(**settings) as client:  # type: ignore[arg-type]
            while not is_enough(tally):
                path, body, expected = requests[i % len(requests)]
                began = time.monotonic()
                answer = await client.post(path, json=body)
                tally.statuses[answer.status_code] += 1
                tally.seconds.setdefault(answer.status_code, []).append(time.monotonic() - began)
                if answer.status_code == 200 and not same(answer.json(), expected):
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
