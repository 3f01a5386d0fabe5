"""regard show: whether a model can be trained here, what its training takes, and its parts with their shapes."""

import re
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import BeginWith, Overrides, RecipeName

if TYPE_CHECKING:
    import torch
    from rich.table import Table
    from torch import Tensor

    from regard.models.interface import Cost, Model
    from regard.runs.recipe import Recipe
    from regard.training.estimate import Estimate

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
NOT_MEASURED = (
    "Compute was within 10 % of steps of two other models on one H200; communication is modeled from "
    "stated bandwidths, see docs/scaling.md. With few tokens on each GPU, its products are slower than shown here."
)
P100 = 9.5e12  # FLOP/s that the paper takes for a P100, single precision


def show(
    recipe: RecipeName,
    set_: Overrides = None,
    from_: BeginWith = None,
    measure: Annotated[bool, typer.Option("--measure", help="read the data and time steps, as doctor does")] = False,
    gpus: Annotated[int | None, typer.Option(min=1, help="also show the modeled cost on this many H200s")] = None,
) -> None:
    """Show what training a model takes, and its parts with shapes and parameters.

    The first lines say whether it can be trained here.  Time and memory are rough, unless --measure times steps.
    """
    from rich.console import Console

    from regard.learning.device import choose_device
    from regard.runs.inheriting import read_recipe
    from regard.runs.weights import read_tensors
    from regard.training.estimate import by_flops
    from regard.training.prepare import parameters_by_part

    console = Console()
    chosen = read_recipe(recipe, set_ or [], from_)
    if chosen.model_class.is_counted:
        print(f"{chosen.name}: a {chosen.architecture} model, trained by counting; no parameters are learned.")
        print("It reads the text once and keeps the counts.")
        print_missing(chosen)
        weights = Path(recipe) / "model.safetensors"
        if weights.is_file():
            console.print(parts("numbers", sorted(read_tensors(weights).items())))
        return
    model = chosen.sketch()
    device = choose_device(None)
    cost = model.cost(chosen.task.window)
    estimate = measured(chosen, from_, device) if measure else by_flops(chosen, model, cost.forward, device)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{chosen.name}: a {chosen.architecture} model of {n_parameters:,} parameters.")
    print(verdict(estimate, device.type, free_on(device)))
    print(f"Time and memory: {estimate.how}.")
    print_missing(chosen)
    console.print(costs(chosen, cost, estimate, device.type))
    table = parts("parameters", model.named_parameters())
    sums = parameters_by_part(model)
    for part, count in sums.items():
        if part == "all" or len(sums) <= table.row_count:  # otherwise every part has its row already
            table.add_row(part, "", f"{count:,}", style="bold")
    console.print(table)
    if gpus is not None:
        console.print(on_gpus(chosen, model, gpus), NOT_MEASURED)


def measured(chosen: "Recipe", origin: Path | None, device: "torch.device") -> "Estimate":
    """On real steps; nothing of it stays."""
    from regard.training.estimate import measure
    from regard.training.prepare import prepare

    with tempfile.TemporaryDirectory() as folder:
        cached = replace(chosen, data=replace(chosen.data, cache=""))
        return measure(prepare(cached, Path(folder) / "show", weights_from=origin, device=device), device)


def on_gpus(chosen: "Recipe", model: "Model", n: int) -> "Table":
    """The recipe's batch, divided among the GPUs of one machine and of all."""
    from rich.table import Table

    from regard.runs.card import duration
    from regard.training.scaling import H200, STATED, Work, step_cost

    headings = ("GPUs", "kind", "tokens each", "a step", "sent", "waiting", "tokens/s", "memory each", "the training")
    table = Table(*headings, title=f"On {n:,} H200s (modeled)")
    c, n_tokens = chosen.training, chosen.training.accumulate * chosen.data.budget
    work = Work.of(model, chosen.d_model, chosen.task.window, n_tokens)
    for n_taken in sorted({1, min(n, STATED.n_inside), n}):
        for kind in ("data", "sharded") if n_taken > 1 else ("one process",):
            cost = step_cost(work.shared_by(n_taken), H200, n_taken, kind=kind)
            table.add_row(
                f"{n_taken:,}",
                kind,
                f"{n_tokens / n_taken:,.0f}",
                f"{1000 * cost.seconds:,.1f} ms",
                f"{1000 * cost.sent:,.1f} ms",
                f"{1 - cost.busy:.0%}",
                f"{cost.tokens_per_second:,.0f}",
                f"{cost.memory / 2**30:,.1f} GiB" + (" (too much)" if cost.memory > H200.room else ""),
                f"{duration(c.steps * cost.seconds)}, {n_taken * c.steps * cost.seconds / 3600:,.1f} GPU hours",
            )
    return table


def verdict(estimate: "Estimate", device: str, free: int) -> str:
    """Whether it can be trained here, and in what time."""
    from regard.runs.card import duration

    takes = f"about {duration(estimate.seconds)}"
    if estimate.memory > free:
        needs = f"training needs about {amount(estimate.memory)}, and {amount(free)} are free"
        return f"Too large for this {device}: {needs}. With enough memory it would take {takes}."
    return (
        f"It can be trained on this {device}: {takes}, {amount(estimate.memory)} of the {amount(free)} that are free."
    )


def print_missing(chosen: "Recipe") -> None:
    """Where files that the recipe names are not there: which, and how to get them."""
    from regard.data.sets import how_to_get

    data = chosen.data
    files = [Path(data.root) / name for name in dict.fromkeys((*data.train, *data.valid, *data.test))]
    missing = [file for file in files if not file.exists()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        hint = how_to_get(missing[0]) or "check data.root and the names of the files"
        print(f"The data are missing: {missing[0]}{more}; {hint}.")


def free_on(device: "torch.device") -> int:
    import torch

    from regard.memory import free_memory

    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()


def amount(n_bytes: int) -> str:
    mebibytes = n_bytes / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes < 10_000 else f"{mebibytes / 1024:,.0f} GiB"


def parts(heading: str, tensors: "Iterable[tuple[str, Tensor]]") -> "Table":
    """One row for what is alike in several layers, a weight with its bias: blocks.0-5.attention.to_keys."""
    from rich.table import Table

    alike: dict[tuple[str, str], list[tuple[str, Tensor]]] = {}
    for name, tensor in tensors:
        shape = " × ".join(map(str, tensor.shape))
        alike.setdefault((re.sub(r"\.\d+\.", ".#.", name), shape), []).append((name, tensor))
    rows: list[tuple[str, str, int]] = []
    for (pattern, shape), named in alike.items():
        name, n_numbers = joined(pattern, [name for name, _ in named]), sum(tensor.numel() for _, tensor in named)
        stem = name.removesuffix(".bias")
        if rows and stem != name and rows[-1][0] == f"{stem}.weight":
            rows[-1] = (stem, f"{rows[-1][1]} + {shape}", rows[-1][2] + n_numbers)
        else:
            rows.append((name, shape, n_numbers))
    table = Table("part", "shape", heading, title="Its parts")
    for place, (name, shape, n_numbers) in enumerate(rows, start=1):
        table.add_row(name, shape, f"{n_numbers:,}", end_section=place == len(rows))
    return table


def joined(pattern: str, names: list[str]) -> str:
    """The names in one: a number that differs is written from its first to its last."""
    numbers = [re.findall(r"(?<=\.)\d+(?=\.)", name) for name in names]
    for column in zip(*numbers, strict=True):
        first, last = column[0], column[-1]
        pattern = pattern.replace("#", first if first == last else f"{first}-{last}", 1)
    return pattern


def is_shipped(chosen: "Recipe") -> bool:
    """Whether it is the model of the shipped recipe of that name, and not another that is only called so."""
    from regard.runs.recipe import Recipe

    return chosen.model == Recipe.read(chosen.name).model


def costs(chosen: "Recipe", cost: "Cost", estimate: "Estimate", device: str) -> "Table":
    from rich.table import Table

    from regard.runs.card import duration

    table = Table("cost", "figure", "how", title="What it takes")
    table.add_row("FLOPs per token", f"{cost.forward:.3g} forward, {3 * cost.forward:.3g} training", cost.how)
    what = "weights, gradients, Adam's moments, one batch, the program"
    table.add_row("memory to train", f"about {amount(estimate.memory)}", what)
    n_tokens = chosen.training.steps * chosen.training.accumulate * chosen.data.budget
    whole = 3 * cost.forward * n_tokens  # forward once, backward twice that
    table.add_row("the whole training", f"{whole:.2g} FLOPs", f"{chosen.training.steps:,} steps of this recipe")
    table.add_row(f"expected time, this {device}", duration(estimate.seconds), estimate.how)
    on_h200 = whole / (H200 * 1e12)
    if not cost.is_sequential and on_h200 >= 60:  # a small model does not reach that rate
        table.add_row("expected time, an H200", duration(on_h200), f"at {H200:g} TFLOP/s, if it is large")
    if chosen.name in PUBLISHED and is_shipped(chosen):
        flops, days, n_gpus = PUBLISHED[chosen.name]
        how = f"{days:g} days × {n_gpus} P100 × 9.5 TFLOP/s: capacity, not work done"
        table.add_row("the paper says", f"{flops:.2g} FLOPs", "Vaswani et al. 2017, table 2")
        table.add_row("as its authors counted", f"{days * 86400 * n_gpus * P100:.2g} FLOPs", how)
    if chosen.name in LECTURES and is_shipped(chosen):
        flops, words = LECTURES[chosen.name]
        table.add_row("the lectures say", f"{flops:.2g} FLOPs", words)
        table.add_row("which are for", f"{flops / (3 * cost.forward):.2g} tokens", "at the FLOPs per token above")
        table.add_row("this recipe trains on", f"{n_tokens:.2g} tokens", f"{whole / flops:.2g} of that cost")
    return table
