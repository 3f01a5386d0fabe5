"""Writing with GPT-2's smallest, greedily: tokens a second, for batches of one text and of many.

Weights are random but the same for all; nothing ends before its length.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.decoding import warm_up
from bench.machine import which_can_run
from bench.report import Report, Row
from bench.timing import take_turns
from bench.translators import Translate
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.interop.families.gpt2 import GPT2
from regard.runs.recipe import Recipe

NO_END = -1  # no token ends a text
N_CHECKED = 4  # texts that all must continue alike in float32


@dataclass(frozen=True, kw_only=True)
class Plan:
    settings: tuple[str, ...]  # on top of the recipe gpt2
    batches: tuple[int, ...]
    n_read: int
    n_written: int
    rounds: int


SMALL = ("tokenizer.vocab_size=300", "model.d_model=16", "model.n_heads=2", "model.n_layers=2", "model.d_ff=32")
PLANS = {
    "cuda": Plan(settings=(), batches=(1, 64, 256), n_read=32, n_written=224, rounds=3),
    "cpu": Plan(settings=(), batches=(1, 8), n_read=32, n_written=32, rounds=3),
    "tiny": Plan(settings=SMALL, batches=(1, 3), n_read=4, n_written=6, rounds=2),
}


def ours(model: Any, recipe: Recipe, plan: Plan) -> Translate:
    engine = Engine(model)

    def write(prompts: list[list[int]]) -> list[list[int]]:
        length, n_tokens = plan.n_written, len(prompts) * plan.n_written
        config = DecodingConfig(length_ratio=0.0, extra_length=length, batch_tokens=n_tokens)
        return [best.tokens for best, *_ in engine.generate(prompts, config, 0, NO_END)]

    return write


def transformers_generate(model: Any, recipe: Recipe, plan: Plan, static: bool) -> Translate:
    """`generate` with its growing cache; or with a static one, for which it compiles the step on a GPU."""
    import transformers

    transformers.logging.set_verbosity_error()
    weight = next(model.parameters())
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2.write_config(recipe)))
    made.load_state_dict(GPT2.give(model.state_dict(), recipe), strict=False)
    made = made.to(weight.device, weight.dtype).eval()
    made.tie_weights()
    made.generation_config.eos_token_id = None
    made.generation_config.pad_token_id = 0
    settings: dict[str, Any] = {"cache_implementation": "static"} if static else {}

    def write(prompts: list[list[int]]) -> list[list[int]]:
        ids = torch.tensor(prompts, device=weight.device)
        n = plan.n_written
        out = made.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=n,
            do_sample=False,
            **settings,
        )
        return out[:, ids.shape[1] :].tolist()

    return write


CONTENDERS: dict[str, Callable[[Any, Recipe, Plan], Translate]] = {
    "regard": ours,
    "transformers": partial(transformers_generate, static=False),
    "transformers static": partial(transformers_generate, static=True),
}
PACKAGES = {name: ("transformers",) for name in CONTENDERS if name.startswith("transformers")}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    names = [name for name in names if device.type == "cuda" or name != "transformers static"]
    recipe = Recipe.read("gpt2", [*plan.settings, "model.dropout=0.0"])
    torch.manual_seed(0)
    model = recipe.build_model().to(device).eval()
    with torch.no_grad():  # larger weights, so that what follows depends on what was read
        for name, parameter in model.named_parameters():
            parameter.mul_(2.0 if name.endswith("weight") and parameter.ndim == 2 else 1.0)
    notes.append(check_same(plan, recipe, model, [name for name in names if name != "transformers static"]))
    kind = "float32"
    if device.type == "cuda":
        model, kind = model.bfloat16(), "bfloat16"
    c = recipe.model
    about = (
        f"greedy, {c.n_layers} layers of {c.d_model}, {c.vocab_size:,} tokens in the vocabulary, "
        f"{plan.n_read} tokens in, {plan.n_written} out, {kind}"
    )
    report = Report("generating", "tok/s", about, notes=notes)
    writers = {name: CONTENDERS[name](model, recipe, plan) for name in names}
    for size in plan.batches:
        batch = make_prompts(plan, recipe, size)
        warm_up(writers, batch, plan.n_written, report.notes)
        taken = take_turns(
            {name: partial(write, batch) for name, write in writers.items()}, rounds or plan.rounds, device
        )
        report.rows += [
            Row(case=f"batch {size}", contender=name, figures=taken[name].rates(size * plan.n_written))
            for name in writers
        ]
    return report


def make_prompts(plan: Plan, recipe: Recipe, n: int) -> list[list[int]]:
    chance = random.Random(n)
    return [[chance.randrange(1, recipe.model.vocab_size - 1) for _ in range(plan.n_read)] for _ in range(n)]


def check_same(plan: Plan, recipe: Recipe, model: Any, names: list[str]) -> str:
    """All must write the same tokens in float32, at least to begin with: where two are nearly as probable, rounding
    decides, and all that follows differs."""
    prompts = make_prompts(plan, recipe, N_CHECKED)
    texts = {name: CONTENDERS[name](model, recipe, plan)(prompts) for name in names}
    for row in zip(*texts.values(), strict=True):
        if len({tuple(text[:2]) for text in row}) > 1:
            raise AssertionError("the contenders do not do the same work: their texts begin differently")
    n_same = sum(len(set(map(tuple, row))) == 1 for row in zip(*texts.values(), strict=True))
    return f"checked before timing: {', '.join(names)} write the same in float32, {n_same} of {N_CHECKED} texts"
