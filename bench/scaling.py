"""The cost model of `regard/training/scaling.py` beside one GPU: seconds and bytes of a step, predicted and measured.

The model is given what kernels reach here (products of the model's width, attention at its lengths, a sum of two
arrays), each measured alone, and predicts whole steps from them.  A step is forward, backward and AdamW, compiled and
recorded, as the training loop does it.  `--picture` draws what it says of many GPUs (`many_gpus.py`).
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from bench import gpt, training
from bench.memory import GpuPeak
from bench.report import Report, Row
from bench.timing import Seconds, say, wait
from bench.trainers import Trainer
from regard.models.interface import Model
from regard.nn.attention import Attend, Memory
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, causal, everywhere
from regard.runs.recipe import Recipe
from regard.training.scaling import H200, Machine, StepCost, Work, step_cost

Looks = list[tuple[Ragged, Ragged, Sight]]  # each kind of attention in a layer: queries, keys, the rule
PAPER = {"base": ("transformer-base", 100_000), "big": ("transformer-big", 300_000)}  # steps of 25,000 target tokens
PAPER_TOKENS, PAPER_LENGTH = 25_000, 28


@dataclass(frozen=True, kw_only=True)
class Plan:
    seconds: dict[str, float]  # of the measured stretch of each case; the base translator's prices the paper's training
    pause: float  # seconds of every measurement of a kernel
    n_bytes: int  # of the arrays that are added
    is_tiny: bool = False


PLANS = {
    "cuda": Plan(seconds={"gpt": 20.0, "translator": 120.0}, pause=0.15, n_bytes=2**30),
    "cpu": Plan(seconds={"gpt": 10.0, "translator": 10.0}, pause=0.1, n_bytes=2**26),
    "tiny": Plan(seconds={"gpt": 0.2, "translator": 0.2}, pause=0.02, n_bytes=2**16, is_tiny=True),
}


@dataclass(frozen=True)
class Case:
    name: str
    model: Model
    d_model: int
    n_heads: int
    n_layers: int
    trainer: Trainer
    batches: list[Any]  # of the task's own
    looks: Callable[[Any], Looks]

    @property
    def n_targets(self) -> float:
        """Of a batch, on average."""
        return sum(batch.n_targets for batch in self.batches) / len(self.batches)

    def work(self) -> Work:
        """Of a batch, on average, with the rows that fill it where steps are recorded."""
        batches = [batch.filled() if self.trainer.is_recorded else batch for batch in self.batches]
        n_tokens = sum(self.looks(batch)[0][0].n_rows for batch in batches) / len(batches)
        layouts = [self.looks(batch)[0][0] for batch in self.batches]
        length = sum(x.n_rows for x in layouts) / sum(x.n_sequences for x in layouts)
        return Work.of(self.model, self.d_model, round(length), n_tokens)


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    report = Report("scaling", "ms a step", "predicted from kernels and measured, one process", less_is_better=True)
    memory = stream_rate(plan, device)
    report.notes.append(f"a sum of two arrays: {memory / 1e12:.3g} TB/s")
    for name, make in CASES.items():
        if name not in skip:
            say(f"round 1 of 1: {name}")  # one long round: a stretch, not turns
            measure(make, plan.seconds[name], plan, device, memory, report)
            gc.collect()  # what the case has left
    return report


def measure(make: "Maker", seconds: float, plan: Plan, device: torch.device, memory: float, report: Report) -> None:
    """A case, which is gone afterwards, into the report."""
    peak = GpuPeak(device)
    case = make(plan, device)
    work, machine = case.work(), measured_machine(case, plan, device, memory)
    peak.restart()
    taken = stretch(case, seconds, device)
    taken_memory, cost = peak.bytes(), step_cost(work, machine)
    report.notes += [
        f"{case.name}: products {machine.products / 1e12:.3g} TFLOP/s, attention {machine.attention / 1e12:.3g} "
        f"TFLOP/s at {work.length:.0f} tokens; predicted: {1000 * cost.compute:.3g} ms of passes, "
        f"{1000 * cost.update:.3g} ms of updates; {work.n_tokens:,.0f} rows of targets a step",
        f"{case.name}: predicted / measured: time {1000 * cost.seconds / taken.milliseconds().median:.3f}"
        + (f", memory {cost.memory / taken_memory:.3f}" if taken_memory else ""),
    ]
    predicted = Seconds([cost.seconds]).milliseconds()
    report.rows += [
        Row(case=case.name, contender="regard, measured", figures=taken.milliseconds(), memory=taken_memory),
        Row(case=case.name, contender="predicted", figures=predicted, memory=int(cost.memory)),
    ]
    if case.name.startswith("base") and not plan.is_tiny:
        report.notes += prices(taken.milliseconds().median / 1000, case.n_targets, machine)


def gpt_case(plan: Plan, device: torch.device) -> Case:
    sizes = gpt.PLANS["tiny" if plan.is_tiny else device.type]
    recipe = Recipe.read("gpt2", [*sizes.settings, "model.dropout=0.0"])
    trainer = gpt.make(recipe, which(device), device)
    batches = gpt.make_batches(sizes, recipe, sizes.n_windows[0])
    name = f"GPT-2 {sizes.n_windows[0]} x {sizes.window}"
    return Case(
        name, trainer.model, recipe.d_model, recipe.model.n_heads, recipe.model.n_layers, trainer, batches,
        lambda batch: [(batch.layout, batch.layout, causal)],
    )  # fmt: skip


def translator_case(plan: Plan, device: torch.device) -> Case:
    sizes = training.PLANS["tiny" if plan.is_tiny else device.type]
    trainer = training.make(sizes, which(device), device)
    batches = training.make_batches(sizes, "grouped")

    def looks(batch: Any) -> Looks:
        source, target = batch.source_layout, batch.target_layout
        return [(target, target, causal), (source, source, everywhere), (target, source, everywhere)]

    shape, name = sizes.shape, f"base translator, {sizes.budget:,}"
    model = cast(Model, trainer.model)
    return Case(name, model, shape.d_model, shape.n_heads, shape.n_layers, trainer, batches, looks)


Maker = Callable[[Plan, torch.device], Case]
CASES: dict[str, Maker] = {"gpt": gpt_case, "translator": translator_case}


def which(device: torch.device) -> str:
    return "regard compiled" if device.type == "cuda" else "regard"


def stretch(case: Case, seconds: float, device: torch.device) -> Seconds:
    """Steps over the batches again and again; the first two rounds compile and record."""
    prepared = case.trainer.prepared(case.batches)
    for _ in range(2):
        case.trainer.train(prepared)
    wait(device)
    taken, begun = Seconds(), time.perf_counter()
    while not taken.rounds or time.perf_counter() - begun < seconds:
        before = time.perf_counter()
        case.trainer.train(prepared)
        wait(device)
        taken.rounds.append((time.perf_counter() - before) / len(prepared))
    return taken


def timed(call: Callable[[], object], plan: Plan, device: torch.device) -> float:
    """Seconds of a call, on average."""
    for _ in range(2):
        call()
    wait(device)
    if device.type == "cuda":  # without the host, which a recorded step does not wait for
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        call = graph.replay
    n_calls, begun = 0, time.perf_counter()
    while not n_calls or time.perf_counter() - begun < plan.pause:
        for _ in range(10):
            call()
        wait(device)
        n_calls += 10
    return (time.perf_counter() - begun) / n_calls


def half(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def stream_rate(plan: Plan, device: torch.device) -> float:
    a, b, out = (torch.zeros(plan.n_bytes // 4, device=device) for _ in range(3))
    return 3 * plan.n_bytes / timed(lambda: torch.add(a, b, out=out), plan, device)


def measured_machine(case: Case, plan: Plan, device: torch.device, memory: float) -> Machine:
    work = case.work()
    looked = sum(attention_seconds(case, batch, plan, device) for batch in case.batches) / len(case.batches)
    products = product_rate(case.d_model, round(work.n_tokens), plan, device)
    return replace(H200, products=products, attention=work.attention / looked, half=0.0, memory=memory)


def product_rate(d_model: int, n_rows: int, plan: Plan, device: torch.device) -> float:
    """FLOP/s of the products of a layer, d to d four times and d to 4 d and back, and of their gradients."""
    shapes = [*4 * [(d_model, d_model)], (d_model, 4 * d_model), (4 * d_model, d_model)]
    drawn = {
        size: torch.randn(n_rows, size, device=device, dtype=half(device)) for size in {s for x in shapes for s in x}
    }
    weights = [torch.randn(n_out, n_in, device=device, dtype=half(device)) for n_in, n_out in shapes]

    def products() -> None:
        for (n_in, n_out), weight in zip(shapes, weights, strict=True):
            x, gradient = drawn[n_in], drawn[n_out]
            F.linear(x, weight)
            gradient @ weight
            gradient.T @ x

    n_flops = 3 * 2 * n_rows * sum(n_in * n_out for n_in, n_out in shapes)
    return n_flops / timed(products, plan, device)


def attention_seconds(case: Case, batch: Any, plan: Plan, device: torch.device) -> float:
    """Of all layers of attention of a model, forward and backward."""
    batch = batch.to(device)
    return case.n_layers * sum(timed(attending(case, *look), plan, device) for look in case.looks(batch))


def attending(case: Case, queries: Ragged, keys: Ragged, sight: Sight) -> Callable[[], object]:
    device, d_head = case.model.device, case.d_model // case.n_heads
    counts = (queries.n_rows, keys.n_rows, keys.n_rows, queries.n_rows)
    *rows, gradient = (torch.randn(n, case.n_heads, d_head, device=device, dtype=half(device)) for n in counts)
    for row in rows:
        row.requires_grad_()
    position = POSITIONS["none"](Space(case.d_model, case.n_heads, keys.longest)).to(device)
    attend = Attend(SCORES["scaled_dot"](d_head, keys.longest), position)

    def call() -> tuple[Tensor, ...]:
        out = attend(rows[0], queries, Memory(rows[1], rows[2], keys), sight)
        return torch.autograd.grad(out, rows, gradient)

    return call


def prices(seconds: float, n_targets: float, machine: Machine) -> list[str]:
    """The paper's two trainings on one GPU: base as measured, big as predicted, by as many tokens."""
    lines = []
    for name, (recipe_name, n_steps) in PAPER.items():
        each = seconds / n_targets * PAPER_TOKENS
        if name == "big":
            each *= paper_cost(recipe_name, machine).seconds / paper_cost(PAPER["base"][0], machine).seconds
        hours = n_steps * each / 3600
        how = "measured" if name == "base" else "predicted from base"
        lines.append(
            f"the paper's {name}: {n_steps:,} steps of {PAPER_TOKENS:,} target tokens, {1000 * each:.3g} ms each "
            f"({how}): "
            f"{hours:.2f} hours of one H200, {hours * H200.watts / 1000:.2g} kWh at {H200.watts:g} W"
        )
    return lines


def paper_cost(recipe_name: str, machine: Machine, n: int = 1) -> StepCost:
    recipe = Recipe.read(recipe_name)
    with torch.device("meta"):
        model = recipe.build_model()
    return step_cost(Work.of(model, recipe.d_model, PAPER_LENGTH, PAPER_TOKENS).shared_by(n), machine, n)
