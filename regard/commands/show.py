"""regard show: the parts of a model, and what it costs."""

from typing import Annotated

import typer


def show(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|RUN", help="a shipped name, a TOML file or a run folder")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE", help="change one setting; repeatable")
    ] = None,
) -> None:
    """Show a model's parts with shapes, parameters, FLOPs per token, memory and the cost of its training."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from regard.models.cost import COSTS, published, training_cost
    from regard.training.prepare import parameters_by_part, training_memory
    from regard.training.recipe import Recipe
    from regard.training.screen import duration

    console = Console()
    chosen = Recipe.read(recipe, set_ or [])
    with torch.device("meta"):  # shapes without memory
        model = chosen.build_model()
    table = Table("part", "shape", "parameters", title=f"{chosen.name}: {chosen.architecture}")
    n_layers = getattr(chosen.model, "n_layers", 1)
    for name, parameter in model.named_parameters():
        repeated = any(f".{i}." in name for i in range(1, n_layers))
        if not repeated:
            shown = name.replace(".0.", f".0-{n_layers - 1}.") if ".0." in name and n_layers > 1 else name
            times = n_layers if ".0." in name else 1
            shape = " × ".join(map(str, parameter.shape))
            table.add_row(shown, shape, f"{parameter.numel() * times:,}")
    for part, count in parameters_by_part(model).items():
        table.add_row(part, "", f"{count:,}", style="bold", end_section=True)
    console.print(table)

    table = Table("cost", "figure", "how", title="What it takes")
    memory = training_memory(chosen, model) / 2**20
    table.add_row("memory to train", f"about {memory:,.0f} MiB", "weights, gradients, Adam's moments, one batch")
    if chosen.architecture not in COSTS:
        console.print(table)
        return
    cost = COSTS[chosen.architecture](chosen.model, 30, 30)
    table.add_row("FLOPs per target token", f"{cost.forward:.3g} forward, {3 * cost.forward:.3g} training", cost.how)
    whole = training_cost(cost, chosen.training.steps * chosen.training.accumulate * chosen.data.batch_tokens)
    table.add_row("the whole training", f"{whole:.2g} FLOPs", f"{chosen.training.steps:,} steps of this recipe")
    for what, tera in (("a 2-core CPU", 0.1), ("an H200", 300.0))[: 1 if cost.is_sequential else 2]:
        table.add_row(f"expected time, {what}", duration(whole / (tera * 1e12)), f"at {tera:g} TFLOP/s")
    for row in published(chosen.name):
        table.add_row(*row)
    console.print(table)
