"""Attention by length: full beside what looks at less, one layer, in time and memory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bench.machine import reason
from bench.memory import GpuPeak, process_peak
from bench.report import Report, Row
from bench.timing import take_turns
from regard.nn.attention import Attend, Memory
from regard.nn.hashing import HashedAttend, Hashing
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.rolling import full
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, causal, global_tokens, window

WIDTH = 256  # of the window
SEGMENT, RATE = 512, 4  # rows of a segment, of its memory and of what is compressed, each of these made of RATE
HASHED, REMEMBERING = "regard hashing, 2 rounds", f"regard memory of {SEGMENT}"
COMPRESSING = f"{REMEMBERING}, as many compressed"
RULES: dict[str, Sight] = {
    "full": causal,
    f"regard window of {WIDTH}": causal & window(WIDTH),
    f"regard window of {WIDTH}, 64 global": causal & (window(WIDTH) | global_tokens(64)),
    HASHED: causal,
    REMEMBERING: causal,
    COMPRESSING: causal,
}
WARMED = 16  # tokens that first load the libraries


@dataclass(frozen=True, kw_only=True)
class Plan:
    n_heads: int
    d_head: int
    lengths: tuple[int, ...]
    rounds: int
    once_from: int  # tokens from which on one round, without a warm-up, must do
    dtype: torch.dtype
    memory: bool  # also measured; on a CPU it takes a fresh process for each figure


LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
PLANS = {
    "cpu": Plan(n_heads=1, d_head=64, lengths=LENGTHS, rounds=3, once_from=32_768, dtype=torch.float32, memory=True),
    "cuda": Plan(n_heads=8, d_head=64, lengths=LENGTHS, rounds=5, once_from=1 << 20, dtype=torch.bfloat16, memory=True),
    "tiny": Plan(n_heads=2, d_head=4, lengths=(8, 16), rounds=1, once_from=16, dtype=torch.float32, memory=False),
}


@dataclass(frozen=True, kw_only=True)
class Point(Row):
    n: int  # tokens
    work: str


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    heads = "one head" if plan.n_heads == 1 else f"{plan.n_heads} heads"
    work = f"one sequence, causal, {heads} of {plan.d_head}, {plan.dtype}".replace("torch.", "")
    report = Report("long", "ms", work, less_is_better=True)
    report.notes.append("memory: the most that is held beyond queries, keys and values")
    for backward in (False, True):
        for length in plan.lengths:
            measure(report, length, plan, device, rounds or plan.rounds, backward, skip)
    return report


def measure(
    report: Report, length: int, plan: Plan, device: torch.device, rounds: int, backward: bool, skip: tuple[str, ...]
) -> None:
    work = "both ways" if backward else "forward"
    case = f"{length:,} tokens, {work}"
    calls, is_long = {}, length >= plan.once_from
    for name in RULES:
        if name in skip:
            continue
        try:
            calls[name] = prepare(name, length, plan, device.type, backward)
            if not is_long:
                calls[name]()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            calls.pop(name, None)
            report.notes.append(f"{case}: {name} does not run ({reason(error)})")
    taken = take_turns(calls, 1 if is_long else rounds, device)
    for name in calls:
        memory = peak(name, length, plan, device, backward) if plan.memory else None
        figures = taken[name].milliseconds()
        report.rows.append(Point(case=case, contender=name, figures=figures, memory=memory, n=length, work=work))


def prepare(name: str, length: int, plan: Plan, device: str, backward: bool) -> Callable[[], None]:
    """The work of one contender, warmed up."""

    def make(n: int) -> Callable[[], None]:
        torch.manual_seed(0)
        d_model = plan.n_heads * plan.d_head
        score, position = SCORES["scaled_dot"](plan.d_head, n), POSITIONS["none"](Space(d_model, plan.n_heads, n))
        hashing = Hashing(n_rounds=2, n_buckets=2 * max(1, n // 128), chunk=64)
        attend = HashedAttend(score, position, hashing, plan.d_head) if name == HASHED else Attend(score, position)
        attend = attend.to(device)
        layout, size = Ragged([n], device), (n, plan.n_heads, plan.d_head)
        rows = [torch.randn(size, device=device, dtype=plan.dtype, requires_grad=backward) for _ in range(3)]

        def work() -> None:
            with torch.set_grad_enabled(backward):
                if name in (REMEMBERING, COMPRESSING):
                    out = in_segments(attend, rows, compresses=name == COMPRESSING)
                else:
                    out = attend(rows[0], layout, Memory(rows[1], rows[2], layout), RULES[name])
                if backward:
                    torch.autograd.grad(out, rows, torch.ones_like(out))

        return work

    make(WARMED)()
    return make(length)


def in_segments(attend: Attend, rows: list[Tensor], compresses: bool) -> Tensor:
    """As a Transformer-XL reads: a segment after another, each with the rows before it and, where it compresses, the
    means of older ones."""
    queries, keys, values = (each[None] for each in rows)
    out = []
    for begin in range(0, queries.shape[1], SEGMENT):
        new, kept = slice(begin, begin + SEGMENT), slice(max(0, begin - SEGMENT), begin)
        old = slice(max(0, kept.start - RATE * SEGMENT), kept.start)

        def seen(part: Tensor, new: slice = new, kept: slice = kept, old: slice = old) -> Tensor:
            means = part[:, old].unflatten(1, (-1, RATE)).mean(2) if compresses and old.stop else part[:, :0]
            return torch.cat([means.detach(), part[:, kept].detach(), part[:, new]], 1)

        memory, n = (seen(keys), seen(values)), queries[:, new].shape[1]
        layout = full(1, n, queries, start=memory[0].shape[1] - n)
        out.append(attend(queries[:, new], layout, Memory(*memory, full(1, memory[0].shape[1], queries)), causal))
    return torch.cat(out, 1)[0]


def draw(report: Report, path: Path) -> None:
    """Time and memory by length, forward and with the backward pass, both axes by their logarithm."""
    from regard.viewer import style  # matplotlib takes a second to import

    points = [row for row in report.rows if isinstance(row, Point)]
    works = list(dict.fromkeys(point.work for point in points))
    units: dict[str, Callable[[Point], float | None]] = {
        "ms": lambda point: point.figures.median,
        "MiB": lambda point: point.memory / 2**20 if point.memory else None,
    }
    units = {unit: value for unit, value in units.items() if any(value(point) is not None for point in points)}
    figure = style.blank(5.2 * len(works), 3.6 * len(units) + 0.6)
    table = figure.subplots(len(units), len(works), squeeze=False)
    for line, (unit, value) in zip(table, units.items(), strict=True):
        for axes, work in zip(line, works, strict=True):
            for (name, color), mark in zip(zip(RULES, style.LINES, strict=False), "osD^vP", strict=True):
                drawn = [(p.n, value(p)) for p in points if (p.work, p.contender) == (work, name) and value(p)]
                if drawn:
                    axes.plot(*zip(*drawn, strict=True), color=color, marker=mark, markersize=4, label=name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            lengths = sorted({point.n for point in points})
            axes.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45, fontsize=8)
            axes.set_title(f"{unit}, {work}", fontsize=10, color=style.INK, loc="left")
            axes.grid(color=style.RULE, linewidth=0.6)
            style.plain(axes)
    table[0][0].legend(fontsize=7, frameon=False)
    figure.suptitle(report.work, fontsize=10, color=style.INK)
    figure.savefig(path, format="png")


def peak(name: str, length: int, plan: Plan, device: torch.device, backward: bool) -> int | None:
    if device.type == "cpu":
        return process_peak(prepare, name, length, plan, device.type, backward)
    call = prepare(name, length, plan, device.type, backward)
    taken = GpuPeak(device)
    taken.restart()
    call()
    return taken.bytes()
