"""Train what was prepared: by the loop, or by counting where that is all a model needs."""

from functools import partial
from pathlib import Path

import torch

from regard.models import ARCHITECTURES
from regard.runs.card import Result
from regard.training.counting import count
from regard.training.distill import distilled_loss
from regard.training.environment import compile_model
from regard.training.loop import train
from regard.training.prepare import Prepared, write_recipe
from regard.training.screen import Screen


def start(prepared: Prepared, run: Path, device: torch.device, resume: bool, screen: Screen) -> Result:
    """Leaves a finished run in the folder.  Raises what `train` raises."""
    if ARCHITECTURES[prepared.recipe.architecture].is_counted:
        return count(prepared, run, device, resume, screen)
    recipe = prepared.recipe
    loss = None
    if prepared.teacher is not None:
        compile_model(prepared.teacher.to(device), recipe.training.compile, device)
        loss = partial(distilled_loss, prepared.task, prepared.teacher, recipe.distillation)
    return train(
        prepared.model,
        prepared.task,
        prepared.recipe.training,
        prepared.about,
        run=run,
        d_model=prepared.recipe.d_model,
        device=device,
        resume=resume,
        screen=screen,
        loss=loss,
        lora=prepared.recipe.lora,
        settle=lambda: write_recipe(recipe, run),
    )
