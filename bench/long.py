"""Attention by length: full beside what looks at less, one layer, in time and memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bench.machine import reason
from bench.memory import GpuPeak, process_peak
from bench.report import Report, Row
from bench.timing import take_turns
from regard.nn.attention import Attend, Memory
from regard.nn.hashing import HashedAttend, Hashing
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, causal, global_tokens, window

WIDTH = 256  # of the window
HASHED = "regard, 2 rounds of hashing"
RULES: dict[str, Sight] = {
    "full": causal,
    f"regard, window of {WIDTH}": causal & window(WIDTH),
    f"regard, window of {WIDTH} and 64 global rows": causal & (window(WIDTH) | global_tokens(64)),
    HASHED: causal,
}
WARMED = 16  # tokens that first load the libraries


@dataclass(frozen=True, kw_only=True)
class Plan:
    n_heads: int
    d_head: int
    lengths: tuple[int, ...]
    rounds: int
    dtype: torch.dtype
    memory: bool  # also measured; on a CPU it takes a fresh process for each figure


LENGTHS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
PLANS = {
    "cpu": Plan(n_heads=4, d_head=64, lengths=LENGTHS[:6], rounds=3, dtype=torch.float32, memory=True),
    "cuda": Plan(n_heads=8, d_head=64, lengths=LENGTHS, rounds=5, dtype=torch.bfloat16, memory=True),
    "tiny": Plan(n_heads=2, d_head=4, lengths=(8, 16), rounds=1, dtype=torch.float32, memory=False),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    work = f"one sequence, causal, {plan.n_heads} heads of {plan.d_head}, {plan.dtype}".replace("torch.", "")
    report = Report("long", "ms", work, less_is_better=True)
    report.notes.append("memory: the most that is held beyond queries, keys and values")
    for backward in (False, True):
        for length in plan.lengths:
            measure(report, length, plan, device, rounds or plan.rounds, backward, skip)
    return report


def measure(
    report: Report, length: int, plan: Plan, device: torch.device, rounds: int, backward: bool, skip: tuple[str, ...]
) -> None:
    case = f"{length:,} tokens, {'forward and backward' if backward else 'forward'}"
    calls = {}
    for name in RULES:
        if name in skip:
            continue
        try:
            calls[name] = prepare(name, length, plan, device.type, backward)
            calls[name]()
        except (torch.OutOfMemoryError, RuntimeError) as error:
            calls.pop(name, None)
            report.notes.append(f"{case}: {name} does not run ({reason(error)})")
    taken = take_turns(calls, rounds, device)
    for name in calls:
        memory = peak(name, length, plan, device, backward) if plan.memory else None
        report.rows.append(Row(case=case, contender=name, figures=taken[name].milliseconds(), memory=memory))


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
                out = attend(rows[0], layout, Memory(rows[1], rows[2], layout), RULES[name])
                if backward:
                    torch.autograd.grad(out, rows, torch.ones_like(out))

        return work

    make(WARMED)()
    return make(length)


def peak(name: str, length: int, plan: Plan, device: torch.device, backward: bool) -> int | None:
    if device.type == "cpu":
        return process_peak(prepare, name, length, plan, device.type, backward)
    call = prepare(name, length, plan, device.type, backward)
    taken = GpuPeak(device)
    taken.restart()
    call()
    return taken.bytes()
