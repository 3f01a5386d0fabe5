"""regard show: the parts of a model with their shapes, and what its training takes."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands.options import BeginWith, Overrides, RecipeName

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from regard.models.interface import Model
    from regard.runs.recipe import Recipe

H200 = 300.0  # TFLOP/s that a large model reaches on it
# What the paper says (Vaswani et al. 2017, table 2) and how its authors counted: time x GPUs x sustained rate.
PUBLISHED = {"transformer-base": (3.3e18, 12 / 24, 8), "transformer-big": (2.3e19, 3.5, 8)}
PETAFLOPS_DAY = 1e15 * 86400  # FLOPs
# What the lectures' table of GPT models says, in FLOPs and in its own words; of GPT-2, it has the largest alone.
LECTURES = {
    "gpt1": (1 * PETAFLOPS_DAY, "1 petaFLOP/s-day; 30 days on 8 P600 GPUs"),
    "gpt2-xl": (1.5e21, "tens of petaFLOP/s-days"),
    "gpt3": (3640 * PETAFLOPS_DAY, "3640 petaFLOP/s-days"),
}
P100 = 9.5e12  # FLOP/s that the paper takes for a P100, single precision


def show(recipe: RecipeName, set_: Overrides = None, from_: BeginWith = None) -> None:
    """Show a model's parts with shapes, parameters, FLOPs per token, memory and the cost of its training."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from regard.runs.inheriting import read_recipe
    from regard.runs.weights import read_tensors
    from regard.training.prepare import parameters_by_part

    console = Console()
    chosen = read_recipe(recipe, set_ or [], from_)
    if chosen.model_class.is_counted:
        table = Table("part", "shape", "numbers", title=f"{chosen.name}: {chosen.architecture}, by counting")
        weights = Path(recipe) / "model.safetensors"
        add_parts(table, sorted(read_tensors(weights).items()) if weights.is_file() else ())
        table.add_row("parameters", "", "0", style="bold", end_section=True)
        console.print(table, "Trained in one pass over the text; what it holds is what was counted.")
        return
    with torch.device("meta"):  # shapes without memory
        model = chosen.build_model()
    table = Table("part", "shape", "parameters", title=f"{chosen.name}: {chosen.architecture}")
    add_parts(table, model.named_parameters())
    for part, count in parameters_by_part(model).items():
        table.add_row(part, "", f"{count:,}", style="bold", end_section=True)
    console.print(table, costs(chosen, model))


def add_parts(table: "Table", tensors: "Iterable[tuple[str, Tensor]]") -> None:
    """One row for what is alike in several layers: blocks.0-5.norm.weight."""
    alike: dict[tuple[str, str], list[tuple[str, Tensor]]] = {}
    for name, tensor in tensors:
        shape = " × ".join(map(str, tensor.shape))
        alike.setdefault((re.sub(r"\.\d+\.", ".#.", name), shape), []).append((name, tensor))
    for (pattern, shape), named in alike.items():
        n_numbers = sum(tensor.numel() for _, tensor in named)
        table.add_row(joined(pattern, [name for name, _ in named]), shape, f"{n_numbers:,}")


def joined(pattern: str, names: list[str]) -> str:
    """The names in one: a number that differs is written from its first to its last."""
    numbers = [re.findall(r"(?<=\.)\d+(?=\.)", name) for name in names]
    for column in zip(*numbers, strict=True):
        first, last = column[0], column[-1]
        pattern = pattern.replace("#", first if first == last else f"{first}-{last}", 1)
    return pattern


def costs(chosen: "Recipe", model: "Model") -> "Table":
    from rich.table import Table

    from regard.learning.device import choose_device
    from regard.runs.card import duration
    from regard.training.estimate import by_flops

    table = Table("cost", "figure", "how", title="What it takes")
    cost = model.cost(chosen.task.window)
    table.add_row("FLOPs per token", f"{cost.forward:.3g} forward, {3 * cost.forward:.3g} training", cost.how)
    device = choose_device(None)
    estimate = by_flops(chosen, model, cost.forward, device)
    memory = estimate.memory / 2**20
    table.add_row(
        "memory to train",
        f"about {memory:,.0f} MiB" if memory < 10_000 else f"about {memory / 1024:,.0f} GiB",
        "weights, gradients, Adam's moments, one batch, the program",
    )
    n_tokens = chosen.training.steps * chosen.training.accumulate * chosen.data.batch_tokens
    whole = 3 * cost.forward * n_tokens  # forward once, backward twice that
    table.add_row("the whole training", f"{whole:.2g} FLOPs", f"{chosen.training.steps:,} steps of this recipe")
    table.add_row(f"expected time, this {device.type}", duration(estimate.seconds), estimate.how)
    if not cost.is_sequential:
        table.add_row("expected time, an H200", duration(whole / (H200 * 1e12)), f"at {H200:g} TFLOP/s, if it is large")
    if chosen.name in PUBLISHED:
        flops, days, n_gpus = PUBLISHED[chosen.name]
        how = f"{days:g} days × {n_gpus} P100 × 9.5 TFLOP/s: capacity, not work done"
        table.add_row("the paper says", f"{flops:.2g} FLOPs", "Vaswani et al. 2017, table 2")
        table.add_row("as its authors counted", f"{days * 86400 * n_gpus * P100:.2g} FLOPs", how)
    if chosen.name in LECTURES:
        flops, words = LECTURES[chosen.name]
        table.add_row("the lectures say", f"{flops:.2g} FLOPs", words)
        table.add_row("which are for", f"{flops / (3 * cost.forward):.2g} tokens", "at the FLOPs per token above")
        table.add_row("this recipe trains on", f"{n_tokens:.2g} tokens", f"{whole / flops:.2g} of that cost")
    return table
