"""Training: real target tokens a second and peak memory on ragged sentences, in random and in grouped batches.

A step is forward, backward and AdamW.  All contenders get the same sentences in the same batches.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from bench.data import ORDERS, TYPICAL, batches, padding, sentences
from bench.machine import reason, which_can_run
from bench.memory import GpuPeak, process_peak
from bench.report import Report, Row
from bench.timing import say, take_turns, wait
from bench.trainers import COMPILED, CONTENDERS, PACKAGES, Trainer, same_work
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation.batches import PairBatch

Memory = dict[tuple[str, str], int | None]  # (contender, order) -> bytes at most
PATIENCE = 240  # seconds that a contender may take to compile
POOL = 8  # the batches are a sample of this many times as many, so that grouped ones are tight


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: TransformerConfig
    longest: int  # tokens of a sentence
    budget: int  # real target tokens a step
    n_batches: int  # steps a round
    rounds: int


BASE = TransformerConfig(vocab_size=37000)
SMALL = TransformerConfig(vocab_size=8000, d_model=256, n_heads=4, n_layers=3, d_ff=1024)
TINY = TransformerConfig(vocab_size=100, d_model=16, n_heads=2, n_layers=2, d_ff=32)
PLANS = {
    "cuda": Plan(shape=BASE, longest=120, budget=25_000, n_batches=8, rounds=5),
    "cpu": Plan(shape=SMALL, longest=60, budget=1_600, n_batches=4, rounds=3),  # about 64 sentences
    "tiny": Plan(shape=TINY, longest=30, budget=200, n_batches=2, rounds=2),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    names = [name for name in names if device.type == "cuda" or name not in COMPILED]
    few = make_batches(replace(plan, budget=min(plan.budget, 400)), "random")[:1]
    notes.append(same_work(lambda name: make(plan, name, device), [n for n in names if n not in COMPILED], few))
    report = Report("training", "target tok/s", describe(plan, device), notes=notes)
    work = {order: make_batches(plan, order) for order in ORDERS if order not in skip}
    on_cpu: Memory = {}
    if device.type == "cpu":
        on_cpu = {(name, order): process_peak(one_round, plan, name, order) for name in names for order in work}
    trainers, on_gpu = warm_up(plan, names, work, device, report.notes)
    memory = on_gpu | on_cpu
    for order, chosen in work.items():
        runs = {name: a_round(trainer, chosen) for name, trainer in trainers.items()}
        taken = take_turns(runs, rounds or plan.rounds, device)
        n_targets = sum(batch.n_targets for batch in chosen)
        report.rows += [
            Row(
                case=f"{order}, {padding(chosen):.0%} padding",
                contender=name,
                figures=taken[name].rates(n_targets),
                memory=memory[name, order],
            )
            for name in trainers
        ]
    return report


def describe(plan: Plan, device: torch.device) -> str:
    c = plan.shape
    return (
        f"{c.n_layers}+{c.n_layers} layers of {c.d_model}, {c.vocab_size:,} words, sentences of 3 to {plan.longest} "
        f"tokens, about {plan.budget:,} real target tokens a step, {'bfloat16' if device.type == 'cuda' else 'float32'}"
    )


def make_batches(plan: Plan, order: str) -> list[PairBatch]:
    n_pairs = POOL * plan.n_batches * plan.budget // TYPICAL
    return batches(sentences(n_pairs, plan.longest, plan.shape.vocab_size), order, plan.budget, plan.n_batches)


def make(plan: Plan, name: str, device: torch.device) -> Trainer:
    """A contender, ready to train."""
    torch.manual_seed(0)
    return CONTENDERS[name](Transformer(plan.shape).to(device))


def warm_up(
    plan: Plan, names: list[str], work: dict[str, list[PairBatch]], device: torch.device, notes: list[str]
) -> tuple[dict[str, Trainer], Memory]:
    """Make every contender and give it every batch twice, so that all is compiled and recorded; on a GPU, with its
    peak memory."""
    trainers: dict[str, Trainer] = {}
    memory: Memory = {}
    for name in names:
        say(f"warming up: {name}")
        begin = time.perf_counter()
        peak = GpuPeak(device)
        try:
            trainer = make(plan, name, device)
            for order, chosen in work.items():
                peak.restart()
                for batch in 2 * trainer.prepared(chosen):
                    trainer.train([batch])
                    if time.perf_counter() - begin > PATIENCE:
                        raise TimeoutError(f"still compiling after {PATIENCE} s")
                memory[name, order] = peak.bytes()
            wait(device)
        except Exception as error:  # a peer that fails is named in the report; the others go on
            if name == "regard":
                raise
            notes.append(f"{name}: does not run here ({reason(error)})")
        else:
            trainers[name] = trainer
            say(f"{name}: ready after {time.perf_counter() - begin:.0f} s")  # compiling takes minutes
            if name in COMPILED:
                notes.append(f"{name}: the first steps, with compiling, took {time.perf_counter() - begin:.0f} s")
    return trainers, memory


def a_round(trainer: Trainer, chosen: list[PairBatch]) -> Callable[[], None]:
    prepared = trainer.prepared(chosen)
    return lambda: trainer.train(prepared)


def one_round(plan: Plan, name: str, order: str) -> Callable[[], None]:
    """All of a contender's work, from making its model, for a process of its own whose memory is then looked at."""
    chosen = make_batches(plan, order)
    make(replace(plan, shape=TINY), name, torch.device("cpu"))  # imports what it needs

    def work() -> None:
        trainer = make(plan, name, torch.device("cpu"))
        trainer.train(trainer.prepared(chosen))

    return work
