"""regard doctor: check the data and the fit before training."""

from typing import Annotated

import typer

from regard.commands.options import Device, Overrides, RecipeName


def doctor(
    recipe: RecipeName,
    set_: Overrides = None,
    seconds: Annotated[float, typer.Option(help="the most time to spend on learning one batch by heart")] = 60.0,
    device: Device = None,
) -> None:
    """Look at the data, estimate memory and time, and learn one batch by heart; writes nothing."""
    import tempfile
    from pathlib import Path

    from regard.commands.tables import print_table
    from regard.learning.device import choose_device
    from regard.models import ARCHITECTURES
    from regard.runs.card import duration
    from regard.runs.recipe import Recipe
    from regard.training.overfit import learn_by_heart
    from regard.training.prepare import prepare, training_memory

    on = choose_device(device)
    with tempfile.TemporaryDirectory() as folder:
        chosen = Recipe.read(recipe, [*(set_ or []), 'data.cache=""'])  # so that nothing is written elsewhere
        prepared = prepare(chosen, Path(folder) / "doctor")
        print_table(("part", "what", "how much", "first at"), prepared.task.inspect(), "The data")
        if ARCHITECTURES[prepared.recipe.architecture].is_counted:
            print("This model is counted, in one pass: there is no fit to try.")
            return
        training = prepared.recipe.training
        print(f"Learning one batch by heart, without dropout and smoothing, for at most {seconds:.0f} s …")
        heart = learn_by_heart(prepared.model, prepared.task, prepared.recipe.d_model, on, seconds)
        n_weights = sum(p.numel() for p in prepared.model.parameters())
        n_tokens = training.steps * training.accumulate * prepared.recipe.data.batch_tokens
        whole = heart.seconds_per_token * n_tokens
        memory = training_memory(prepared.recipe, prepared.model) / 2**20
        rows = [
            ("weights", f"{n_weights:,}"),
            ("memory to train", f"about {memory:,.0f} MiB"),
            ("time to train", f"about {duration(whole)} on this {on.type} ({training.steps:,} steps)"),
            ("one batch by heart", f"{heart.first:.2f} → {heart.last:.3f} nats in {heart.steps} steps"),
        ]
        print_table(("what", "how much"), rows, "The fit")
    if heart.last < 0.1:
        print("The model can learn this data.")
    else:
        print(
            "The batch was not learned by heart in this time: try more --seconds, a higher learning rate or a larger "
            "model; if the loss hardly fell, look for targets that have nothing to do with their inputs."
        )
