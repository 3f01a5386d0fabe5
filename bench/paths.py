"""The paths of attention side by side: which one is fastest for which lengths and rules, forward and backward.

"regard" is the path that `Attend` takes by itself; where another is faster, the bounds in `nn/paths.py` are wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bench.machine import reason
from bench.report import Report, Row
from bench.timing import take_turns
from regard.errors import RegardError
from regard.nn import flat_paths, paths
from regard.nn.attention import Attend, Memory
from regard.nn.case import Case
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, causal, everywhere, global_tokens, window

N_HEADS, D_HEAD = 8, 64
FLEX_FROM = 200  # keys: with fewer there is no block to skip, and every case takes long to compile
REPEATS = 10  # calls a round: one alone is too short for a clock


@dataclass(frozen=True, kw_only=True)
class Plan:
    n_rows: int
    rounds: int
    lengths: dict[str, tuple[float, float]]  # of sequences: the median, and the spread of its logarithm


PLANS = {
    "cuda": Plan(
        n_rows=32_768,
        rounds=5,
        lengths={
            "alike, 24": (24, 0.1),
            "mixed, 24": (24, 0.55),
            "alike, 96": (96, 0.1),
            "alike, 256": (256, 0.1),
            "mixed, 256": (256, 0.55),
            "alike, 512": (512, 0.1),
            "alike, 1,024": (1024, 0.1),
            "alike, 4,096": (4096, 0.1),
        },
    ),
    "tiny": Plan(n_rows=64, rounds=1, lengths={"alike, 8": (8, 0.1)}),
}
RULES: dict[str, tuple[Sight, str]] = {  # and a position
    "everywhere": (everywhere, "none"),
    "causal": (causal, "none"),
    "causal window": (causal & window(64), "none"),
    "window and global": (window(64) | global_tokens(1), "none"),
    "causal, alibi": (causal, "alibi"),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    if device.type != "cuda" and not tiny:
        raise RegardError("a CPU has one fast path; compare them on a GPU: python -m bench paths --device cuda")
    plan = PLANS["tiny" if tiny else "cuda"]
    torch._dynamo.config.recompile_limit = 100  # every rule and some lengths have their own kernel of flex attention
    work = f"{N_HEADS} heads of {D_HEAD}, {plan.n_rows:,} tokens, {REPEATS} times forward and backward, bfloat16"
    report = Report("paths", "ms", work, less_is_better=True)
    for lengths_name, (median, spread) in plan.lengths.items():
        layout = make_layout(plan.n_rows, median, spread, device)
        for rule_name, (sight, position) in RULES.items():
            case = f"{lengths_name}: {rule_name}"
            if lengths_name in skip or rule_name in skip:
                continue
            contenders = {}
            for name, call in calls(layout, sight, position, device).items():
                if name in skip:
                    continue
                try:
                    call()
                    contenders[name] = call
                except Exception as error:  # a path without a kernel for the case is named in the report
                    report.notes.append(f"{case}: {name} does not run ({reason(error)})")
            taken = take_turns(contenders, rounds or plan.rounds, device)
            for name in contenders:
                report.rows.append(Row(case=case, contender=name, figures=taken[name].milliseconds()))
    return report


def make_layout(n_rows: int, median: float, spread: float, device: torch.device) -> Ragged:
    """Sequences with log-normal lengths until the rows are full."""
    drawn = median * np.exp(spread * np.random.default_rng(0).standard_normal(n_rows))
    lengths = drawn.round().clip(1, n_rows).astype(int)
    n = max(1, int(np.searchsorted(np.cumsum(lengths), n_rows, side="right")))
    return Ragged(lengths[:n].tolist()).to(device)


def calls(layout: Ragged, sight: Sight, position: str, device: torch.device) -> dict[str, Callable[[], None]]:
    """Our own choice, and every path that can do this at all."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shape = (layout.n_rows, N_HEADS, D_HEAD)
    queries, keys, values = (torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(3))
    places = POSITIONS[position](Space(N_HEADS * D_HEAD, N_HEADS, layout.longest)).to(device)
    attend = Attend(SCORES["scaled_dot"](D_HEAD, layout.longest), places)
    case = Case(queries, layout, keys, values, layout, sight, attend.score.scale, places)
    runs: dict[str, Callable[[], Tensor]] = {
        "regard": lambda: attend(queries, layout, Memory(keys, values, layout), sight),
        **({"short": lambda: flat_paths.run_short(case)} if flat_paths.fits_short(case) else {}),
        **({"varlen": lambda: flat_paths.run_varlen(case)} if flat_paths.stays_flat(case) else {}),
        **({"flex": lambda: paths.run_flex(case)} if device.type == "cuda" and layout.longest >= FLEX_FROM else {}),
        "padded": lambda: paths.run_padded(case),
    }
    return {name: several_times(run) for name, run in runs.items()}


def several_times(run: Callable[[], Tensor]) -> Callable[[], None]:
    def work() -> None:
        for _ in range(REPEATS):
            out = run()
            out.backward(torch.ones_like(out))

    return work
