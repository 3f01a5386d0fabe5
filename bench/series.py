"""Training PatchTST: windows a second, beside neuralforecast's.

A step is forward, backward and AdamW.  Both have the sizes of the paper and get the same windows, column by column.
They differ in what the implementations differ in: neuralforecast's blocks have batch norms and add the scores of the
layer before, as the authors' code does; ours are the blocks of every other Transformer here, post-norm for this.
neuralforecast brings many packages: give it an environment of its own, and run the bench there (docs/series.md).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench.machine import reason, version, which_can_run
from bench.report import Report, Row
from bench.timing import say, take_turns, wait
from bench.trainers import Trainer
from regard.runs.recipe import Recipe
from regard.tasks.forecasting.batches import WindowBatch
from regard.training.environment import compile_model, reproducible


@dataclass(frozen=True, kw_only=True)
class Case:
    look_back: int
    horizon: int
    n_columns: int
    n_windows: int  # of a step
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int = 3

    @property
    def name(self) -> str:
        steps = f"{self.look_back} + {self.horizon} steps"
        return f"{self.n_windows} windows of {steps}, {self.n_columns} columns, d_model {self.d_model}"

    def settings(self) -> list[str]:
        sizes = ("look_back", "horizon", "d_model", "n_heads", "d_ff", "n_layers")
        columns = ", ".join(f'"{i}"' for i in range(self.n_columns))
        own = [f"model.{name}={value}" for name, value in vars(self).items() if name in sizes]
        return [*own, f"task.columns=[{columns}]", "task.quantiles=[]", "model.pre_norm=false"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    cases: tuple[Case, ...]
    n_batches: int  # steps a round
    rounds: int


SMALL = Case(look_back=336, horizon=96, n_columns=7, n_windows=32, d_model=16, n_heads=4, d_ff=128)
LARGE = Case(look_back=336, horizon=96, n_columns=21, n_windows=128, d_model=128, n_heads=16, d_ff=256)
PLANS = {
    "cuda": Plan(cases=(LARGE,), n_batches=10, rounds=5),
    "cpu": Plan(cases=(SMALL,), n_batches=10, rounds=5),
    "tiny": Plan(
        cases=(Case(look_back=24, horizon=4, n_columns=2, n_windows=3, d_model=8, n_heads=2, d_ff=16),),
        n_batches=2,
        rounds=2,
    ),
}


def ours(model: Any, compiled: bool) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms."""
    if compiled:
        done = compile_model(model, "on", model.device)
        if done != "compiled":
            raise RuntimeError(done)

    def loss(batch: WindowBatch) -> Tensor:
        return (model(batch.past, batch.features)[..., 0].float() - batch.future).square().sum()

    return Trainer(model, lambda batch: batch, loss, lambda: reproducible(model.device))


def neuralforecast_patchtst(case: Case, dropout: float, device: torch.device, compiled: bool) -> Trainer:
    """Its network without its trainer, which would take time of its own."""
    import logging

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    from neuralforecast.models import PatchTST

    sizes = {"hidden_size": case.d_model, "n_heads": case.n_heads, "linear_hidden_size": case.d_ff}
    made = PatchTST(
        h=case.horizon,
        input_size=case.look_back,
        encoder_layers=case.n_layers,
        dropout=dropout,
        fc_dropout=0.0,
        revin_subtract_last=False,
        **sizes,
    )
    network = made.model.to(device).train()

    def loss(past: Tensor, future: Tensor) -> Tensor:
        return (network(past).float().view_as(future) - future).square().sum()

    run = torch.compile(loss) if compiled else loss
    return Trainer(network, by_column, lambda batch: run(*batch))


def by_column(batch: WindowBatch) -> tuple[Tensor, Tensor]:
    """Every column of a window as a series by itself: (B C, 1, L) and (B C, H)."""
    past, future = (steps.transpose(1, 2).flatten(0, 1) for steps in (batch.past, batch.future))
    return past[:, None].contiguous(), future.contiguous()


CONTENDERS: dict[str, Callable[[Any, Case, float], Trainer]] = {
    "regard": lambda model, case, dropout: ours(model, compiled=False),
    "regard compiled": lambda model, case, dropout: ours(model, compiled=True),
    "neuralforecast": lambda model, case, dropout: neuralforecast_patchtst(case, dropout, model.device, False),
    "neuralforecast compiled": lambda model, case, dropout: neuralforecast_patchtst(case, dropout, model.device, True),
}
PACKAGES = {name: ("neuralforecast",) for name in CONTENDERS if name.startswith("neuralforecast")}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    notes.append(f"neuralforecast {version('neuralforecast')}")
    if device.type != "cuda":
        names = [name for name in names if not name.endswith("compiled")]
    kind = "bfloat16" if device.type == "cuda" else "float32"
    report = Report("series", "windows/s", f"PatchTST with its dropout, {kind}", notes=notes)
    for case in plan.cases:
        recipe = Recipe.read("etth1", case.settings())
        trainers, batches = {}, make_batches(case, plan.n_batches)
        for name in names:
            say(f"warming up: {case.name}, {name}")
            begin = time.perf_counter()
            try:
                torch.manual_seed(0)
                trainers[name] = CONTENDERS[name](recipe.build_model().to(device), case, recipe.model.dropout)
                trainers[name].train(trainers[name].prepared(batches))
                wait(device)
            except Exception as error:  # a peer that fails is named in the report; the others go on
                if name == "regard":
                    raise
                trainers.pop(name, None)
                notes.append(f"{name}: does not run here ({reason(error)})")
                continue
            say(f"{name}: ready after {time.perf_counter() - begin:.0f} s")
            notes.append(f"{name}: {sum(p.numel() for p in trainers[name].model.parameters()):,} parameters")
        runs = {name: a_round(trainer, batches) for name, trainer in trainers.items()}
        taken = take_turns(runs, rounds or plan.rounds, device)
        n_windows = plan.n_batches * case.n_windows
        report.rows += [Row(case=case.name, contender=name, figures=taken[name].rates(n_windows)) for name in trainers]
    return report


def make_batches(case: Case, n: int) -> list[WindowBatch]:
    draw = torch.Generator().manual_seed(case.n_windows)
    batches = []
    for _ in range(n):
        past = torch.randn(case.n_windows, case.look_back, case.n_columns, generator=draw)
        future = torch.randn(case.n_windows, case.horizon, case.n_columns, generator=draw)
        features = torch.empty(case.n_windows, case.look_back + case.horizon, 0)
        batches.append(WindowBatch([], past, features, future, None, future.numel()))
    return batches


def a_round(trainer: Trainer, batches: list[WindowBatch]) -> Callable[[], None]:
    prepared = trainer.prepared(batches)
    return lambda: trainer.train(prepared)
