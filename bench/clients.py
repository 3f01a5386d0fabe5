"""Clients of a server, few or many at once, from this process: what each request takes, and servers in processes."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Body = dict[str, object]
CountTokens = Callable[[Any], int]  # what an answer's JSON says of how many tokens were written


@dataclass
class Load:
    """What one level of load gave: seconds of each request, and of all together."""

    model: str
    contender: str
    n_clients: int
    seconds: list[float] = field(default_factory=list)
    n_tokens: int = 0  # written
    took: float = 0.0

    @property
    def rate(self) -> float:
        return self.n_tokens / self.took

    def milliseconds(self, share: float) -> float:
        return 1000 * float(np.percentile(self.seconds, 100 * share))

    def record(self) -> dict[str, object]:
        figures = {f"p{share}_ms": self.milliseconds(share / 100) for share in (50, 99)}
        names = {"model": self.model, "contender": self.contender, "clients": self.n_clients}
        return names | {"requests": len(self.seconds)} | figures


async def ask_all(load: Load, url: str, path: str, bodies: Sequence[Body], count: CountTokens) -> Load:
    """Every client asks for the next that nobody has asked for, until all are answered."""
    import httpx  # of the tests' extra, as uvicorn is of [serve]

    rest = iter(bodies)

    async def ask() -> None:
        # A client each: one for all looks at all of its connections before each request.
        async with httpx.AsyncClient(base_url=url, timeout=600, trust_env=False, verify=False) as client:
            for body in rest:
                began = time.perf_counter()
                answer = (await client.post(path, json=body)).raise_for_status()
                load.seconds.append(time.perf_counter() - began)
                load.n_tokens += count(answer.json())

    began = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(load.n_clients)))
    load.took = time.perf_counter() - began
    return load


def threads() -> dict[str, str]:
    """As many for a server as for this process."""
    return {name: str(torch.get_num_threads()) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}


@contextmanager
def started(module: str, *arguments: str) -> Iterator[str]:
    """A server in a process of its own, which says its address on standard error."""
    with running([sys.executable, "-m", module, *arguments]) as (child, log):
        yield address(child, log)


@contextmanager
def running(command: list[str]) -> Iterator[tuple["subprocess.Popen[bytes]", Any]]:
    """A process and what it says on standard error; it is ended with the block."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL, env={**os.environ, **threads()})
        try:
            yield child, log
        finally:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def address(child: "subprocess.Popen[bytes]", log: Any) -> str:
    while child.poll() is None:
        log.seek(0)
        if place := re.search(r"on (http://\S+) ", log.read()):
            return place[1]
        time.sleep(0.1)
    raise RuntimeError(last_words(log))


def last_words(log: Any) -> str:
    log.seek(0)
    return str(log.read()[-500:])


@contextmanager
def our_server(folder: str, device: torch.device, n_clients: int) -> Iterator[str]:
    limits = [f"running={n_clients}", f"waiting={n_clients}", "wait_seconds=600.0", "answer_seconds=600.0"]
    options = [part for limit in limits for part in ("--set", limit)]
    with started("regard", "serve", folder, "--port", "0", "--device", str(device), *options) as url:
        yield url
