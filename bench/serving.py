"""A translator over HTTP: target tokens a second and seconds of a request, for few clients and for many.

Beside it the offline engine of the same run, one request at a time, and CTranslate2 behind a queue that collects
batches.  The clients run on the same cores as the servers: the figures say what one machine does alone.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import regard
from bench.apart import Apart
from bench.decoding import PLANS, Plan, endless, make_sources
from bench.machine import which_can_run
from bench.report import Report, Row
from bench.timing import Figures, say
from bench.translators import BEAM, PACKAGES
from regard.runs.recipe import Recipe
from regard.runs.weights import save_weights, weights_of
from regard.text.tokenizer import Tokenizer

LEVELS = {"tiny": (1, 2), "cpu": (1, 4, 16, 64), "cuda": (1, 16, 64, 256)}  # clients at once
N_REQUESTS = {"tiny": 4, "cpu": 128, "cuda": 1024}
PEERS = ("CTranslate2 float32", "CTranslate2 int8")


@dataclass
class Load:
    """What one level of load gave: seconds of each request, and of all together."""

    contender: str
    n_clients: int
    seconds: list[float] = field(default_factory=list)
    took: float = 0.0

    def milliseconds(self, share: float) -> float:
        return 1000 * float(np.percentile(self.seconds, 100 * share))


@dataclass
class ServingReport(Report):
    loads: list[Load] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        latencies = [
            {"contender": load.contender, "clients": load.n_clients}
            | {f"p{share}_ms": load.milliseconds(share / 100) for share in (50, 99)}
            for load in self.loads
        ]
        return super().to_json() | {"latencies": latencies}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    size = "tiny" if tiny else device.type
    plan, levels, n_requests = PLANS[size], LEVELS[size], N_REQUESTS[size]
    peers, notes = which_can_run(PEERS if device.type == "cpu" else (), PACKAGES, skip)
    notes.append("clients share the cores with the servers; ours are sent text, CTranslate2 ids of tokens")
    report = ServingReport("serving", "target tok/s", describe(plan, n_requests), notes=notes)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        lines = make_run(plan, Path(folder) / "base", n_requests)
        offline = Apart(offline_translator, str(Path(folder) / "base"), str(device), torch.get_num_threads())
        servers = {"regard serve": stack.enter_context(our_server(Path(folder) / "base", device, max(levels)))}
        for name in peers:
            servers[name] = stack.enter_context(started("bench.collecting", size, name, str(torch.get_num_threads())))
        bodies = {
            name: (line_body(lines) if name == "regard serve" else ids_body(plan, n_requests)) for name in servers
        }
        work = n_requests * plan.n_tokens
        for number in range(rounds or plan.rounds):
            say(f"round {number + 1}: offline")
            began = time.perf_counter()
            offline(lines)
            add(report, "all at once", "regard offline", work / (time.perf_counter() - began))
            for name, url in servers.items():
                for n_clients in levels:
                    say(f"round {number + 1}: {name}, {n_clients} clients")
                    load = asyncio.run(ask_all(name, url, bodies[name], n_clients))
                    report.loads.append(load)
                    add(report, f"{n_clients} clients", name, work / load.took)
    report.notes += [
        f"{load.n_clients} clients, {load.contender}: p50 {load.milliseconds(0.5):.0f} ms, "
        f"p99 {load.milliseconds(0.99):.0f} ms"
        for load in report.loads[-len(servers) * len(levels) :]
    ]
    return report


def add(report: Report, case: str, contender: str, figure: float) -> None:
    """A figure of one round, beside those of the rounds before."""
    for row in report.rows:
        if (row.case, row.contender) == (case, contender):
            row.figures.values.append(figure)
            return
    report.rows.append(Row(case=case, contender=contender, figures=Figures([figure])))


def describe(plan: Plan, n_requests: int) -> str:
    c, n_threads = plan.shape, torch.get_num_threads()
    return (
        f"{n_requests} requests of one sentence, {plan.lengths[0]} to {plan.lengths[1]} tokens in, "
        f"{plan.n_tokens} out, beam {BEAM}, {c.n_layers}+{c.n_layers} layers of {c.d_model}, {n_threads} threads"
    )


def make_run(plan: Plan, folder: Path, n_lines: int) -> list[str]:
    """A run with the weights of the other contenders, and lines whose tokens are those that they read."""
    c = plan.shape
    words = [f"w{i}" for i in range(c.vocab_size)]
    sizes = {"d_model": c.d_model, "n_heads": c.n_heads, "n_layers": c.n_layers, "d_ff": c.d_ff}
    settings = [f"model.{name}={value}" for name, value in (sizes | {"max_length": c.max_length}).items()]
    settings += ["tokenizer.kind=words", f"tokenizer.vocab_size={c.vocab_size}", f"data.max_length={c.max_length - 2}"]
    settings += [f"decoding.beam={BEAM}", "decoding.length_ratio=0.0", f"decoding.extra_length={plan.n_tokens}"]
    recipe = Recipe.read("transformer-base", settings)
    tokenizer = Tokenizer.train([" ".join(words)] * 2, recipe.tokenizer)
    recipe = recipe.with_vocabulary(c.vocab_size)
    folder.mkdir()
    recipe.write(folder / "recipe.toml")
    tokenizer.save(folder / "tokenizer.json")
    save_weights(weights_of(endless(c)), folder / "model.safetensors")
    n_tokens = tokenizer.vocab_size
    return [tokenizer.decode([min(i, n_tokens - 1) for i in source]) for source in make_sources(plan, n_lines)]


def offline_translator(folder: str, device: str, n_threads: int) -> Callable[[list[str]], list[str]]:
    torch.set_num_threads(n_threads)
    run = regard.load(folder, device)
    return lambda lines: [answer.text for answer in run.translate(lines)]


@contextmanager
def our_server(folder: Path, device: torch.device, n_clients: int) -> Iterator[str]:
    limits = [f"running={n_clients}", f"waiting={n_clients}", "wait_seconds=600.0", "answer_seconds=600.0"]
    options = [part for limit in limits for part in ("--set", limit)]
    with started("regard", "serve", str(folder), "--port", "0", "--device", str(device), *options) as url:
        yield url


@contextmanager
def started(module: str, *arguments: str) -> Iterator[str]:
    """A server in a process of its own, which says its address on standard error."""
    threads = {name: str(torch.get_num_threads()) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", module, *arguments]
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stderr=log, env={**os.environ, **threads})
        try:
            yield address(child, log)
        finally:
            child.terminate()
            child.wait()


def address(child: "subprocess.Popen[bytes]", log: Any) -> str:
    while child.poll() is None:
        log.seek(0)
        if found := re.search(r"on (http://\S+) ", log.read()):
            return found[1]
        time.sleep(0.1)
    log.seek(0)
    raise RuntimeError(log.read()[-500:])


def line_body(lines: list[str]) -> list[tuple[str, dict[str, object]]]:
    return [("/v1/translate", {"lines": [line]}) for line in lines]


def ids_body(plan: Plan, n: int) -> list[tuple[str, dict[str, object]]]:
    return [("/", {"ids": source}) for source in make_sources(plan, n)]


async def ask_all(name: str, url: str, bodies: list[tuple[str, dict[str, object]]], n_clients: int) -> Load:
    """Every client asks for the next that nobody has asked for, until all are answered."""
    import httpx  # of the tests' extra, as uvicorn is of [serve]

    load, rest = Load(name, n_clients), iter(bodies)

    async def ask(client: httpx.AsyncClient) -> None:
        for path, body in rest:
            began = time.perf_counter()
            (await client.post(path, json=body)).raise_for_status()
            load.seconds.append(time.perf_counter() - began)

    limits = httpx.Limits(max_connections=n_clients, max_keepalive_connections=n_clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=600, trust_env=False) as client:
        began = time.perf_counter()
        await asyncio.gather(*(ask(client) for _ in range(n_clients)))
        load.took = time.perf_counter() - began
    return load


def draw(latencies: list[dict[str, Any]], path: Path) -> None:
    """p50 and p99 by the number of clients, a color for each contender; of several rounds, the last."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for color, name in enumerate(dict.fromkeys(row["contender"] for row in latencies)):
        rows = {row["clients"]: row for row in latencies if row["contender"] == name}
        for share, style in (("p50_ms", "-"), ("p99_ms", "--")):
            values = [rows[n][share] for n in sorted(rows)]
            axes.plot(sorted(rows), values, style, color=f"C{color}", marker="o", label=f"{name}, {share[:3]}")
    axes.set(xscale="log", yscale="log", xlabel="clients", ylabel="ms of a request")
    axes.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":  # python -m bench.serving FIGURES.json PICTURE.png: draw what `--json` has written
    import json

    reports = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["reports"]
    draw(next(report["latencies"] for report in reports if report["name"] == "serving"), Path(sys.argv[2]))
