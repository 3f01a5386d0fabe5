"""Training a GPT: tokens a second on full windows, GPT-2's smallest on a GPU and a character GPT on a CPU.

A step is forward, backward and AdamW.  All contenders get the same tokens and begin with the same weights.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bench.machine import reason, which_can_run
from bench.plain_gpt import PlainGPT
from bench.report import Report, Row
from bench.timing import say, take_turns, wait
from bench.trainers import Trainer, same_work
from regard.checks import expect
from regard.interop.families.gpt2 import GPT2
from regard.models.stack import StackConfig
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.tasks.language.batches import TextBatch
from regard.training.environment import compile_model, reproducible


@dataclass(frozen=True, kw_only=True)
class Plan:
    settings: tuple[str, ...]  # on top of the recipe gpt2
    window: int
    n_windows: tuple[int, ...]  # of a step: a case for each
    n_batches: int  # steps a round
    rounds: int


CHARACTERS = ("model.d_model=128", "model.n_heads=4", "model.n_layers=4", "model.d_ff=512")
TINY = ("model.d_model=16", "model.n_heads=2", "model.n_layers=2", "model.d_ff=32")
SHORT = ("tokenizer.vocab_size=300", "task.window=256", "model.max_length=256")
PLANS = {
    "cuda": Plan(settings=(), window=1024, n_windows=(32,), n_batches=34, rounds=4),  # rounds of 2 s: power is limited
    "cpu": Plan(settings=(*SHORT, *CHARACTERS), window=256, n_windows=(8,), n_batches=8, rounds=3),
    "tiny": Plan(settings=(*SHORT, *TINY), window=32, n_windows=(2,), n_batches=2, rounds=2),
}


def ours(model: Any, compiled: bool) -> Trainer:
    """As the training loop does it: on CPU also with deterministic algorithms, compiled also recorded."""
    device = model.device
    if compiled:
        done = compile_model(model, "on", device)
        if done != "compiled":
            raise RuntimeError(done)
    return Trainer(
        model,
        lambda batch: batch,
        lambda batch: model.nats(batch.tokens, batch.labels, batch.layout),
        lambda: reproducible(device),
        is_recorded=compiled,
    )


def transformers_gpt2(model: Any, recipe: Recipe, compiled: bool) -> Trainer:
    """Model and loss in one graph; sdpa chooses the kernel."""
    import transformers

    transformers.logging.set_verbosity_error()
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2.write_config(recipe))).to(model.device).train()
    made.load_state_dict(GPT2.give(model.state_dict(), recipe), strict=False)

    def loss(tokens: Tensor, labels: Tensor) -> Tensor:
        logits = made(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum")

    run = torch.compile(loss) if compiled else loss
    return Trainer(made, windows, lambda batch: run(*batch))


def plain_gpt(model: Any, recipe: Recipe, compiled: bool) -> Trainer:
    """nanoGPT's shape; model and loss in one graph."""
    made = PlainGPT(model, expect(recipe.model, StackConfig)).to(model.device)
    run = torch.compile(made) if compiled else made
    return Trainer(made, windows, lambda batch: run(*batch))


def windows(batch: TextBatch) -> tuple[Tensor, Tensor]:
    """(B, T): nothing is padded, for all windows are full."""
    shape = batch.layout.n_sequences, batch.layout.longest
    return batch.tokens.view(shape), batch.labels.view(shape)


CONTENDERS: dict[str, Callable[[Any, Recipe], Trainer]] = {
    "regard": lambda model, recipe: ours(model, compiled=False),
    "regard compiled": lambda model, recipe: ours(model, compiled=True),
    "plain PyTorch": lambda model, recipe: plain_gpt(model, recipe, compiled=False),
    "plain PyTorch compiled": lambda model, recipe: plain_gpt(model, recipe, compiled=True),
    "transformers": lambda model, recipe: transformers_gpt2(model, recipe, compiled=False),
    "transformers compiled": lambda model, recipe: transformers_gpt2(model, recipe, compiled=True),
}
COMPILED = ("regard compiled", "plain PyTorch compiled", "transformers compiled")
ON_CPU = ("plain PyTorch compiled",)  # of them, what gains by it there
PACKAGES = {name: ("transformers",) for name in CONTENDERS if name.startswith("transformers")}


def run(device: torch.device, rounds: int | None, tiny: bool, skip: tuple[str, ...]) -> Report:
    plan = PLANS["tiny" if tiny else device.type]
    recipe = Recipe.read("gpt2", [*plan.settings, "model.dropout=0.0"])
    names, notes = which_can_run(CONTENDERS, PACKAGES, skip)
    names = [name for name in names if device.type == "cuda" or name not in COMPILED or (name in ON_CPU and not tiny)]
    few = make_batches(plan, recipe, 2)[:1]
    notes.append(same_work(lambda name: make(recipe, name, device), [n for n in names if n not in COMPILED], few))
    report = Report("gpt", "tok/s", describe(plan, recipe, device), notes=notes)
    trainers = {}
    for name in names:
        say(f"warming up: {name}")
        begin = time.perf_counter()
        try:
            trainers[name] = make(recipe, name, device)
            for n_windows in plan.n_windows:
                for _ in range(2):  # then all is compiled and recorded
                    trainers[name].train(trainers[name].prepared(make_batches(plan, recipe, n_windows)))
            wait(device)
        except Exception as error:  # a peer that fails is named in the report; the others go on
            if name == "regard":
                raise
            trainers.pop(name, None)
            notes.append(f"{name}: does not run here ({reason(error)})")
        say(f"{name}: ready after {time.perf_counter() - begin:.0f} s")
    for n_windows in plan.n_windows:
        chosen = make_batches(plan, recipe, n_windows)
        runs = {name: a_round(trainer, chosen) for name, trainer in trainers.items()}
        taken = take_turns(runs, rounds or plan.rounds, device)
        n_tokens = plan.n_batches * n_windows * plan.window
        case = f"{n_windows} x {plan.window}"
        report.rows += [Row(case=case, contender=name, figures=taken[name].rates(n_tokens)) for name in trainers]
    return report


def describe(plan: Plan, recipe: Recipe, device: torch.device) -> str:
    c, kind = recipe.model, "bfloat16" if device.type == "cuda" else "float32"
    return f"{c.n_layers} layers of {c.d_model}, {c.vocab_size:,} tokens in the vocabulary, no dropout, {kind}"


def make_batches(plan: Plan, recipe: Recipe, n_windows: int) -> list[TextBatch]:
    draw = torch.Generator().manual_seed(n_windows)
    shape = plan.n_batches, n_windows, plan.window + 1
    texts = torch.randint(recipe.model.vocab_size, shape, generator=draw)
    layout = Ragged([plan.window] * n_windows)
    return [TextBatch([], text[:, :-1].flatten(), text[:, 1:].flatten(), layout) for text in texts]


def make(recipe: Recipe, name: str, device: torch.device) -> Trainer:
    """A contender, ready to train."""
    torch.manual_seed(0)
    return CONTENDERS[name](recipe.build_model().to(device), recipe)


def a_round(trainer: Trainer, chosen: list[TextBatch]) -> Callable[[], None]:
    prepared = trainer.prepared(chosen)
    return lambda: trainer.train(prepared)
