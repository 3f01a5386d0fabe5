"""Decoding with beam 4: target tokens a second, for batches of one sentence and of many.

Weights are random but the same for all, and such that no hypothesis ends: everybody writes the same number of tokens.
"""

import random
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from bench.apart import Apart
from bench.machine import reason, which_can_run
from bench.report import Report, Row
from bench.timing import say, take_turns
from bench.translators import CONTENDERS, CPU_ONLY, EXACT, GPU_ONLY, INT8, PACKAGES, Translate
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.words import SPECIAL

N_CHECKED, N_SAME = 10, 9  # sentences, in float32; how many must come out the same: rounding may decide a tie


@dataclass(frozen=True, kw_only=True)
class Plan:
    shape: TransformerConfig
    batches: tuple[int, ...]
    n_tokens: int  # out, of each sentence
    lengths: tuple[int, int]  # of sources, the shortest and the longest
    rounds: int


BASE = TransformerConfig(vocab_size=37000, max_length=128)
TINY = TransformerConfig(vocab_size=200, d_model=16, n_heads=2, n_layers=2, d_ff=32, max_length=32)
PLANS = {
    "cuda": Plan(shape=BASE, batches=(1, 64, 512), n_tokens=32, lengths=(16, 40), rounds=5),
    "cpu": Plan(shape=BASE, batches=(1, 16, 64), n_tokens=32, lengths=(16, 40), rounds=3),
    "tiny": Plan(shape=TINY, batches=(1, 3), n_tokens=6, lengths=(2, 9), rounds=2),
}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    names = [name for name in names if name not in (CPU_ONLY if device.type == "cuda" else GPU_ONLY)]
    model = endless(plan.shape).to(device)
    notes.append(check_same_output(plan, model, [name for name in names if name in EXACT]))
    if device.type == "cuda":
        model.bfloat16()
        notes.append("CTranslate2 is compared on CPU only")
    report = Report("decoding", "target tok/s", describe(plan, device), notes=notes)
    translators: dict[str, Translate]
    if device.type == "cpu":
        translators = {name: Apart(one_translator, plan, name, torch.get_num_threads()) for name in names}
    else:
        translators = {name: CONTENDERS[name](model, plan.n_tokens) for name in names}
    for size in plan.batches:
        batch = make_sources(plan, size)
        warm_up(translators, batch, plan.n_tokens, report.notes)
        runs = {name: partial(translate, batch) for name, translate in translators.items()}
        taken = take_turns(runs, rounds or plan.rounds, device)
        report.rows += [
            Row(
                case=f"batch {size}, int8" if name in INT8 else f"batch {size}",
                contender=name,
                figures=taken[name].rates(size * plan.n_tokens),
            )
            for name in runs
        ]
    return report


def one_translator(plan: Plan, name: str, n_threads: int) -> Translate:
    torch.set_num_threads(n_threads)
    return CONTENDERS[name](endless(plan.shape), plan.n_tokens)


def describe(plan: Plan, device: torch.device) -> str:
    c = plan.shape
    threads = f"{torch.get_num_threads()} threads, each contender in its own process"
    precision = "bfloat16" if device.type == "cuda" else threads
    return (
        f"beam 4, {c.n_layers}+{c.n_layers} layers of {c.d_model}, {c.vocab_size:,} words, "
        f"{plan.lengths[0]} to {plan.lengths[1]} tokens in, {plan.n_tokens} out, {precision}"
    )


@torch.no_grad()
def endless(shape: TransformerConfig) -> Transformer:
    """Random weights whose translations depend on the source and go on for ever."""
    torch.manual_seed(0)
    model = Transformer(shape).eval()
    for name, weights in model.named_parameters():
        if name.endswith(("to_output.weight", "contract.weight")) and "cross" not in name:
            weights.mul_(0.2)  # or else a deep stack forgets what it read
    norm = model.decoder[-1].feed_forward_residual.norm
    assert isinstance(norm, nn.LayerNorm)
    # Embeddings are tied, so the likeliest next word is the last one again, unless the output has other signs.
    norm.weight.copy_(2 * torch.randint(0, 2, (shape.d_model,)).mul(2).sub(1))
    # The logit of every special token is -(20 + noise) / 2, far below the best of the words.
    norm.bias[0] = 20
    model.embedding.weight[: len(SPECIAL)] = 0
    model.embedding.weight[: len(SPECIAL), 0] = -0.5
    return model


def make_sources(plan: Plan, n: int) -> list[list[int]]:
    """The first has the middle length, the others vary."""
    chance = random.Random(0)
    lengths = [sum(plan.lengths) // 2, *(chance.randint(*plan.lengths) for _ in range(n - 1))]
    return [[chance.randrange(len(SPECIAL), plan.shape.vocab_size) for _ in range(length)] for length in lengths]


def check_same_output(plan: Plan, model: Transformer, names: list[str]) -> str:
    """All must write the same words in float32; says so."""
    some = make_sources(plan, N_CHECKED)
    outputs = {name: CONTENDERS[name](model, plan.n_tokens)(some) for name in names}
    n_same = sum(all(output == same[0] for output in same) for same in zip(*outputs.values(), strict=True))
    if n_same < N_SAME:
        raise AssertionError(f"the contenders do not do the same work: {n_same} of {N_CHECKED} translations agree")
    return f"checked before timing: {', '.join(names)} write the same in float32, {n_same} of {N_CHECKED} sentences"


def warm_up(translators: dict[str, Translate], batch: list[list[int]], n_tokens: int, notes: list[str]) -> None:
    """Twice each, since a CUDA graph is recorded the second time.  Who fails is named and goes."""
    for name, translate in list(translators.items()):
        say(f"warming up: {name}")
        try:
            outputs = [translate(batch) for _ in range(2)]
        except Exception as error:  # a peer that fails is named in the report; the others go on
            if name.startswith("regard"):
                raise
            notes.append(f"{name}: does not run here at batch {len(batch)} ({reason(error)})")
            del translators[name]
            continue
        for output in outputs:
            assert [len(tokens) for tokens in output] == [n_tokens] * len(batch), f"{name} writes fewer tokens"
