"""A translator and GPT-2 over HTTP: tokens a second and milliseconds of a request, for few clients and for many.

Beside the translator: the offline engine of the same run, and CTranslate2 behind a queue that collects batches.  Beside
GPT-2: transformers' own server.  The clients run on the same cores as the servers: the figures say what one machine
does alone.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import regard
from bench.apart import Apart
from bench.clients import Body, CountTokens, Load, ask_all, our_server, started
from bench.decoding import PLANS, Plan, endless, make_sources
from bench.machine import which_can_run
from bench.report import Report, Row
from bench.served_gpt2 import PEER, make_gpt2, their_server
from bench.timing import Figures, say
from bench.translators import BEAM, PACKAGES
from regard.runs.recipe import Recipe
from regard.runs.weights import save_weights, weights_of
from regard.text.tokenizer import Tokenizer

# Clients at once, and how many requests they make together: few clients need fewer for a steady figure.
LEVELS: dict[str, dict[int, int]] = {
    "tiny": {1: 3, 2: 4, 3: 6, 4: 8},
    "cpu": {1: 24, 4: 48, 16: 96, 64: 192},
    "cuda": {1: 128, 16: 512, 64: 1024, 256: 1024},
}
GPT2_LEVELS: dict[str, dict[int, int]] = {
    "tiny": {1: 2, 2: 2, 3: 3, 4: 4},
    "cpu": {1: 6, 4: 12, 16: 32, 64: 64},
    "cuda": {1: 64, 16: 256, 64: 512, 256: 512},
}
GPT2_TOKENS = 16  # written for each prompt
PEERS = ("CTranslate2 float32", "CTranslate2 int8")
OURS, OFFLINE = "regard serve", "regard offline"
TRANSLATOR, GPT2 = "translator", "GPT-2"


@dataclass
class ServingReport(Report):
    loads: list[Load] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"latencies": [load.record() for load in self.loads]}

    def add(self, case: str, contender: str, figure: float) -> None:
        """A figure of one round, beside those of the rounds before."""
        for row in self.rows:
            if (row.case, row.contender) == (case, contender):
                row.figures.values.append(figure)
                return
        self.rows.append(Row(case=case, contender=contender, figures=Figures([figure])))

    def median(self, case: str, contender: str) -> float:
        return next(r.figures.median for r in self.rows if (r.case, r.contender) == (case, contender))


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A server, and how it is asked."""

    name: str
    url: str
    path: str
    bodies: list[Body]
    count: CountTokens


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    size = "tiny" if tiny else device.type
    plan = PLANS[size]
    report = ServingReport("serving", "tok/s", describe(plan))
    report.notes.append("clients share the cores with the servers; ours and GPT-2's are sent text, CTranslate2 ids")
    with tempfile.TemporaryDirectory() as folder:
        if TRANSLATOR not in skip:
            measure_translators(report, plan, size, device, rounds or 1, skip, Path(folder) / "base")
        if GPT2 not in skip:
            measure_gpt2(report, size, device, rounds or 1, skip, Path(folder))
    report.notes += [
        f"{load.model}, {load.n_clients} clients, {load.contender}: p50 {load.milliseconds(0.5):,.0f} ms, "
        f"p99 {load.milliseconds(0.99):,.0f} ms of {len(load.seconds)} requests"
        for load in report.loads
    ]
    return report


def measure_translators(
    report: ServingReport, plan: Plan, size: str, device: torch.device, rounds: int, skip: tuple[str, ...], folder: Path
) -> None:
    levels = LEVELS[size]
    peers, notes = which_can_run(PEERS if device.type == "cpu" else (), PACKAGES, skip)
    report.notes += notes
    n_requests, n_threads = max(levels.values()), torch.get_num_threads()
    lines = make_run(plan, folder, n_requests)
    sources: list[Body] = [{"ids": source} for source in make_sources(plan, n_requests)]
    texts: list[Body] = [{"lines": [line]} for line in lines]

    def n_written(answer: Any) -> int:
        return plan.n_tokens  # each of these searches writes so many

    with ExitStack() as stack:
        offline = Apart(offline_translator, str(folder), str(device), n_threads)
        url = stack.enter_context(our_server(str(folder), device, max(levels)))
        contenders = [Contender(name=OURS, url=url, path="/v1/translate", bodies=texts, count=n_written)]
        for name in peers:
            url = stack.enter_context(started("bench.collecting", size, name, str(n_threads)))
            contenders.append(Contender(name=name, url=url, path="/", bodies=sources, count=n_written))
        offline(lines[:2])  # weights are read, and laid out, before the clock runs
        for number in range(rounds):
            say(f"round {number + 1}: offline")
            began = time.perf_counter()
            offline(lines)
            report.add(
                f"{TRANSLATOR}, all at once", OFFLINE, n_requests * plan.n_tokens / (time.perf_counter() - began)
            )
            ask_contenders(report, TRANSLATOR, contenders, levels)
    report.notes.append(compare(report, levels))


def compare(report: ServingReport, levels: dict[int, int]) -> str:
    """The two lines that are asked of the server."""
    rates = {n: report.median(f"{TRANSLATOR}, {n} clients", OURS) for n in levels}
    best = max(rates, key=lambda n: rates[n])
    offline = report.median(f"{TRANSLATOR}, all at once", OFFLINE)
    return (
        f"{TRANSLATOR}: {OURS} with {best} clients gives {rates[best] / offline:.2f} times the offline engine's tokens "
        f"and {rates[best] / rates[1]:.2f} times those of one request at a time"
    )


def measure_gpt2(
    report: ServingReport, size: str, device: torch.device, rounds: int, skip: tuple[str, ...], folder: Path
) -> None:
    levels = GPT2_LEVELS[size]
    prompts = make_gpt2(folder / "gpt2", folder / "exported", max(levels.values()), tiny=size == "tiny")
    asked: Body = {"max_tokens": GPT2_TOKENS, "temperature": 0.0}

    def n_written(answer: Any) -> int:
        return int(answer["usage"]["completion_tokens"])

    def bodies(model: str) -> list[Body]:
        return [{"model": model, "prompt": prompt, **asked} for prompt in prompts]

    with ExitStack() as stack:
        path, url = "/v1/completions", stack.enter_context(our_server(str(folder / "gpt2"), device, max(levels)))
        contenders = [Contender(name=OURS, url=url, path=path, bodies=bodies("gpt2"), count=n_written)]
        if PEER in skip:
            report.notes.append(f"{PEER}: left out on request")
        else:
            try:
                url = stack.enter_context(their_server(folder / "exported", device))
                own = bodies(str(folder / "exported"))
                contenders.append(Contender(name=PEER, url=url, path=path, bodies=own, count=n_written))
            except (FileNotFoundError, RuntimeError) as error:
                report.notes.append(f"{PEER}: missing, because {error}")
        for _ in range(rounds):
            ask_contenders(report, GPT2, contenders, levels)


def ask_contenders(report: ServingReport, model: str, contenders: list[Contender], levels: dict[int, int]) -> None:
    """Each has its turn at every level; one request before, which is not counted, makes it ready."""
    for contender in contenders:
        load = Load(model, contender.name, 1)
        asyncio.run(ask_all(load, contender.url, contender.path, contender.bodies[:1], contender.count))
    for n_clients, n_requests in levels.items():
        for contender in contenders:
            say(f"{model}: {contender.name}, {n_clients} clients")
            load = Load(model, contender.name, n_clients)
            asyncio.run(ask_all(load, contender.url, contender.path, contender.bodies[:n_requests], contender.count))
            report.loads.append(load)
            report.add(f"{model}, {n_clients} clients", contender.name, load.rate)


def describe(plan: Plan) -> str:
    c, n_threads = plan.shape, torch.get_num_threads()
    return (
        f"one sentence each, {plan.lengths[0]} to {plan.lengths[1]} tokens in, {plan.n_tokens} out, beam {BEAM}, "
        f"{c.n_layers}+{c.n_layers} layers of {c.d_model}; GPT-2: {GPT2_TOKENS} tokens out, greedy; {n_threads} threads"
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


def draw(report: Report, path: Path) -> None:
    """p50 and p99 by the number of clients, a color for each contender; of several rounds, the last."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator

    latencies = report.to_json()["latencies"]
    models = list(dict.fromkeys(row["model"] for row in latencies))
    figure, panels = pyplot.subplots(
        1, len(models), figsize=(5.5 * len(models), 4.2), layout="constrained", squeeze=False
    )
    for axes, model in zip(panels[0], models, strict=True):
        own = [row for row in latencies if row["model"] == model]
        for color, name in enumerate(dict.fromkeys(row["contender"] for row in own)):
            rows = {row["clients"]: row for row in own if row["contender"] == name}
            for share, style in (("p50_ms", "-"), ("p99_ms", "--")):
                values = [rows[n][share] for n in sorted(rows)]
                axes.plot(sorted(rows), values, style, color=f"C{color}", marker="o", label=f"{name}, {share[:3]}")
        levels = sorted({row["clients"] for row in own})
        axes.set(xscale="log", yscale="log", xlabel="clients at once", ylabel="ms of a request", title=model)
        axes.set_xticks(levels, [str(n) for n in levels])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
