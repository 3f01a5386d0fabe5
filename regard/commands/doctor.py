"""regard doctor: check the data and the fit before training."""

from typing import Annotated

import typer


def doctor(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="a shipped name, a TOML file or a run folder")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.NAME=VALUE", help="change one setting; repeatable")
    ] = None,
    seconds: Annotated[float, typer.Option(help="the most time to spend on learning one batch by heart")] = 60.0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """Look at the data, estimate memory and time, and learn one batch by heart; writes nothing."""
    import tempfile
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from regard.learning.device import choose_device
    from regard.models import ARCHITECTURES
    from regard.runs.card import duration
    from regard.runs.recipe import Recipe
    from regard.training.overfit import learn_by_heart
    from regard.training.prepare import prepare, training_memory

    console = Console()
    on = choose_device(device)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Recipe.read(recipe, [*(set_ or []), 'data.cache=""'])  # so that nothing is written elsewhere
        prepared = prepare(chosen, Path(folder) / "doctor")
        table = Table("part", "what", "how much", "first at", title="The data")
        for row in prepared.task.inspect(prepared.recipe.data):
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)

        if ARCHITECTURES[prepared.recipe.architecture].is_counted:
            console.print("This model is counted, in one pass: there is no fit to try.")
            return
        training = prepared.recipe.training
        console.print(f"Learning one batch by heart, without dropout and smoothing, for at most {seconds:.0f} s …")
        heart = learn_by_heart(prepared.model, prepared.task, prepared.recipe.d_model, on, seconds)
        n_weights = sum(p.numel() for p in prepared.model.parameters())
        n_tokens = training.steps * training.accumulate * prepared.recipe.data.batch_tokens
        whole = heart.seconds_per_token * n_tokens
        table = Table("what", "how much", title="The fit")
        table.add_row("weights", f"{n_weights:,}")
        table.add_row("memory to train", f"about {training_memory(prepared.recipe, prepared.model) / 2**20:,.0f} MiB")
        table.add_row("time to train", f"about {duration(whole)} on this {on.type} ({training.steps:,} steps)")
        table.add_row("one batch by heart", f"{heart.first:.2f} → {heart.last:.3f} nats in {heart.steps} steps")
        console.print(table)
    verdict = (
        "The model can learn this data."
        if heart.last < 0.1
        else "The batch was not learnt by heart in this time: more --seconds, a higher learning rate or a larger model "
        "may do; if the loss hardly fell, look for answers that have nothing to do with what is read."
    )
    console.print(verdict)
