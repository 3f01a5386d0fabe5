"""Additive attention by length: our sum in chunks beside the plain equation, in time and memory."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.machine import reason
from bench.memory import GpuPeak, process_peak
from bench.report import Report, Row
from bench.timing import take_turns
from regard.nn.scores import additive, plain_additive

SUMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "regard, in chunks": additive,
    "the plain equation": plain_additive,
}
WARMED = 8  # queries and keys that first load the libraries


@dataclass(frozen=True, kw_only=True)
class Plan:
    n_heads: int
    d_head: int
    lengths: tuple[int, ...]
    rounds: int
    memory: bool  # also measured; on a CPU it takes a fresh process for each figure


LENGTHS = (128, 256, 512, 1024, 2048)
PLANS = {
    "cpu": Plan(n_heads=1, d_head=64, lengths=LENGTHS, rounds=3, memory=True),
    "cuda": Plan(n_heads=8, d_head=64, lengths=LENGTHS, rounds=5, memory=True),
    "tiny": Plan(n_heads=2, d_head=4, lengths=(8, 16), rounds=1, memory=False),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    work = (
        f"one sequence, heads: {plan.n_heads} of {plan.d_head}, as many keys as queries, forward and backward, float32"
    )
    report = Report("additive", "ms", work, less_is_better=True)
    report.notes.append("memory: the most that is held beyond queries and keys; the scores alone are queries × keys")
    for length in plan.lengths:
        calls = {}
        for name in SUMS:
            if name in skip:
                continue
            try:
                calls[name] = prepare(name, length, plan.n_heads, plan.d_head, device.type)
                calls[name]()
            except (torch.OutOfMemoryError, RuntimeError) as error:  # the plain equation soon needs more than there is
                calls.pop(name, None)
                report.notes.append(f"{length:,}: {name} does not run ({reason(error)})")
        if len(calls) > 1:
            scores = [call() for call in calls.values()]
            torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)
            del scores
        taken = take_turns(calls, rounds or plan.rounds, device)
        for name in calls:
            memory = peak(name, length, plan, device) if plan.memory else None
            figures = taken[name].milliseconds()
            report.rows.append(Row(case=f"{length:,} tokens", contender=name, figures=figures, memory=memory))
    return report


def prepare(name: str, length: int, n_heads: int, d_head: int, device: str) -> Callable[[], Tensor]:
    """The work of one contender, warmed up."""

    def make(n: int) -> Callable[[], Tensor]:
        torch.manual_seed(0)
        queries, keys = (torch.randn(1, n_heads, n, d_head, device=device, requires_grad=True) for _ in range(2))
        v = torch.randn(d_head, device=device, requires_grad=True)
        return lambda: forward_and_backward(name, queries, keys, v)

    make(WARMED)()
    return make(length)


def forward_and_backward(name: str, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    scores = SUMS[name](queries, keys, v)
    torch.autograd.grad(scores, (queries, keys, v), torch.ones_like(scores))
    return scores.detach()


def peak(name: str, length: int, plan: Plan, device: torch.device) -> int | None:
    sizes = (length, plan.n_heads, plan.d_head, device.type)
    if device.type == "cpu":
        return process_peak(prepare, name, *sizes)
    call = prepare(name, *sizes)
    taken = GpuPeak(device)
    taken.restart()
    call()
    return taken.bytes()
