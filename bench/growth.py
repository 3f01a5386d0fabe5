"""What a training step costs as length, batch, vocabulary and depth grow, and what the equation says of it.

A step is forward, backward and AdamW of a GPT on full windows.  The equation is `cost` of the model: FLOPs of a token
times tokens times three (`regard/models/cost.py`), at the one speed that the middle case reaches.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bench.machine import reason
from bench.memory import GpuPeak
from bench.report import Report, Row
from bench.timing import Figures, say, take_turns, wait
from bench.trainers import Trainer
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.tasks.language.batches import TextBatch
from regard.training.environment import reproducible
from regard.training.recomputing import recompute

MEASURED, EQUATION, AGAIN = "regard", "equation", "regard, activations computed again"
BACKWARD = 3  # forward once, backward twice that


@dataclass(frozen=True)
class Case:
    length: int
    batch: int  # windows a step
    vocabulary: int
    depth: int

    @property
    def n_tokens(self) -> int:
        return self.length * self.batch


@dataclass(frozen=True, kw_only=True)
class Plan:
    middle: Case
    grown: dict[str, tuple[int, ...]]  # what each quantity becomes, the others as in the middle
    d_model: int
    n_heads: int
    rounds: int
    once_from: int  # tokens from which on one step must do


LENGTHS = tuple(2**i for i in range(6, 16))  # 64 to 32,768
PLANS = {
    "cuda": Plan(
        middle=Case(1024, 8, 50_304, 12),
        grown={
            "length": LENGTHS,
            "batch": (1, 2, 4, 8, 16, 32),
            "vocabulary": (1024, 8192, 32_768, 50_304, 131_072),
            "depth": (1, 3, 6, 12, 24, 48),
        },
        d_model=768, n_heads=12, rounds=3, once_from=1 << 20,
    ),
    "cpu": Plan(
        middle=Case(256, 4, 2048, 2),
        grown={
            "length": LENGTHS,
            "batch": (1, 2, 4, 8, 16, 32),
            "vocabulary": (256, 1024, 2048, 8192, 32_768),
            "depth": (1, 2, 4, 8, 16),
        },
        d_model=64, n_heads=1, rounds=3, once_from=8192,
    ),
    "tiny": Plan(
        middle=Case(16, 2, 64, 1),
        grown={"length": (8, 16, 32), "batch": (1, 2), "vocabulary": (64, 128), "depth": (1, 2)},
        d_model=16, n_heads=2, rounds=1, once_from=64,
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Grown(Row):
    quantity: str  # what grows
    size: int


def cases(plan: Plan) -> Iterator[tuple[str, int, Case]]:
    for quantity, sizes in plan.grown.items():
        for size in sizes:
            case = replace(plan.middle, **{quantity: size})
            # A long window is a step of its own, so that steps have about as many tokens as in the middle.
            if quantity == "length":
                case = replace(case, batch=max(1, plan.middle.n_tokens // size))
            yield quantity, size, case


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    report = Report("growth", "ms a step", describe(plan, device), less_is_better=True)
    rate, _ = speed(plan, plan.middle, device, rounds or plan.rounds)
    report.notes.append(
        f"equation: 3 x FLOPs of a token x tokens, at {rate / 1e9:,.0f} GFLOP/s, which the middle case reaches "
        f"({plan.middle.batch} windows of {plan.middle.length:,}, {plan.middle.vocabulary:,} words, "
        f"{plan.middle.depth} layers); it counts products alone"
    )
    for quantity, size, case in cases(plan):
        if quantity in skip:
            continue
        name = f"{quantity} {size:,}" + (f" ({case.batch} windows)" if quantity == "length" else "")
        longest = quantity == "length" and size == max(plan.grown["length"])
        for contender in (MEASURED, AGAIN) if longest else (MEASURED,):
            say(f"{name}: {contender}")
            try:
                figures, memory = step_figures(plan, case, device, rounds or plan.rounds, contender == AGAIN)
            except torch.OutOfMemoryError as error:
                report.notes.append(f"{name}: {contender} does not run ({reason(error)})")
                continue
            row = {"case": name, "quantity": quantity, "size": size}
            report.rows.append(Grown(**row, contender=contender, figures=figures, memory=memory))
        expected = Figures([1000 * flops(plan, case) / rate])
        report.rows.append(Grown(**row, contender=EQUATION, figures=expected))
    return report


def describe(plan: Plan, device: torch.device) -> str:
    kind = "bfloat16" if device.type == "cuda" else "float32"
    return f"a step of a GPT of width {plan.d_model}, forward, backward and AdamW, {kind}, eager"


def make(plan: Plan, case: Case) -> LanguageModel:
    torch.manual_seed(0)
    config = StackConfig(
        vocab_size=case.vocabulary, d_model=plan.d_model, n_heads=plan.n_heads, n_layers=case.depth,
        d_ff=4 * plan.d_model, max_length=case.length, dropout=0.0, feed_forward="gelu_tanh", scale_embedding=False,
    )  # fmt: skip
    return LanguageModel(Stack(config))


def flops(plan: Plan, case: Case) -> float:
    """Of a step, by the equation; nothing is built, for shapes are enough."""
    with torch.device("meta"):
        model = make(plan, case)
    return BACKWARD * model.cost(case.length).forward * case.n_tokens


def step_figures(plan: Plan, case: Case, device: torch.device, rounds: int, again: bool) -> tuple[Figures, int | None]:
    """Milliseconds of a step, and the most memory that it took of a GPU."""
    peak = GpuPeak(device)
    model = make(plan, case).to(device).train()
    if again:
        recompute(model)
    trainer = Trainer(
        model,
        lambda batch: batch,
        lambda batch: model.nats(batch.tokens, batch.labels, batch.layout),
        lambda: reproducible(device),
    )
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(case.vocabulary, (case.n_tokens,), generator=draw)
    batch = TextBatch([], tokens, tokens.roll(-1), Ragged([case.length] * case.batch))
    prepared = trainer.prepared([batch])  # type: ignore[list-item]
    is_long = case.n_tokens >= plan.once_from
    if not is_long:
        trainer.train(prepared)
        wait(device)
    peak.restart()
    taken = take_turns({"step": lambda: trainer.train(prepared)}, 1 if is_long else rounds, device)
    return taken["step"].milliseconds(), peak.bytes()


def speed(plan: Plan, case: Case, device: torch.device, rounds: int) -> tuple[float, Figures]:
    """FLOPs a second of a case."""
    figures, _ = step_figures(plan, case, device, rounds, again=False)
    return flops(plan, case) / (figures.median / 1000), figures


def draw(report: Report, path: Path) -> None:
    """Time by each quantity, measured and by the equation, both axes by their logarithm."""
    from regard.viewer import style  # matplotlib takes a second to import

    rows = [row for row in report.rows if isinstance(row, Grown)]
    quantities = list(dict.fromkeys(row.quantity for row in rows))
    figure = style.blank(3.6 * len(quantities), 4.0)
    line = figure.subplots(1, len(quantities), squeeze=False)[0]
    looks = {EQUATION: ("--", ""), MEASURED: ("-", "o"), AGAIN: ("", "D")}
    for axes, quantity in zip(line, quantities, strict=True):
        for (name, (dashes, mark)), color in zip(looks.items(), style.LINES, strict=False):
            points = [(r.size, r.figures.median) for r in rows if (r.quantity, r.contender) == (quantity, name)]
            if points:
                axes.plot(
                    *zip(*points, strict=True), color=color, linestyle=dashes, marker=mark, markersize=4, label=name
                )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        sizes = sorted({row.size for row in rows if row.quantity == quantity})
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=45, fontsize=8)
        axes.set_title(f"ms a step, by {quantity}", fontsize=10, color=style.INK, loc="left")
        axes.grid(color=style.RULE, linewidth=0.6)
        style.plain(axes)
    line[0].legend(fontsize=7, frameon=False)
    figure.suptitle(report.work, fontsize=10, color=style.INK)
    figure.savefig(path, format="png")
