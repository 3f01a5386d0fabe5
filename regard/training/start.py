"""Train what was prepared: by the loop, or by counting where that is all a model needs; or try one batch of it."""

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import nn

from regard.errors import ConfigError
from regard.learning.optimizers import set_learning_rate
from regard.models.markov import Markov
from regard.processes import ALONE, Processes
from regard.runs.card import Result, write_card
from regard.runs.checkpoints import MODEL, refuse_existing
from regard.runs.durable import disk_errors_said
from regard.runs.weights import save_weights, weights_of
from regard.training.distill import distilled_loss
from regard.training.environment import compile_model, peak_memory, record_environment
from regard.training.loop import train
from regard.training.metrics import MetricsFile
from regard.training.prepare import Prepared, write_recipe
from regard.training.screen import Screen
from regard.training.team import Team

ENOUGH = 0.05  # nats a prediction
TOKENS = 500  # of the batch: enough to be hard, few enough for a CPU


def start(
    prepared: Prepared, run: Path, device: torch.device, resume: bool, screen: Screen, processes: Processes = ALONE
) -> Result:
    """Leaves a finished run in the folder.  Raises what `train` raises."""
    recipe = prepared.recipe
    if recipe.model_class.is_counted:
        if processes.n > 1:
            raise ConfigError("this model is trained by counting, in one pass: start it without torchrun")
        return count(prepared, run, device, resume, screen)
    loss = None
    if prepared.teacher is not None:
        compile_model(prepared.teacher.to(device), recipe.training.compile, device)
        loss = partial(distilled_loss, prepared.task, prepared.teacher, recipe.distillation)
    return train(
        prepared.model,
        prepared.task,
        recipe.training,
        prepared.about,
        run=run,
        d_model=recipe.d_model,
        device=device,
        resume=resume,
        screen=screen,
        loss=loss,
        lora=recipe.lora,
        settle=lambda: write_recipe(recipe, run),
        team=Team(processes, recipe.distribution),
    )


@torch.no_grad()
def count(prepared: Prepared, run: Path, device: torch.device, resume: bool, screen: Screen) -> Result:
    """One pass over the data, and the run is complete.  A run that was stopped is counted again from the beginning."""
    if not resume:
        refuse_existing(run)
    model, task = cast(Markov, prepared.model.to(device)), prepared.task
    with disk_errors_said(run, lambda: "The data are untouched; count again."), closing(screen):
        environment, _ = record_environment(run, 0, device, "float32", "eager")
        screen.plan([*prepared.about.rows, ("training", "by counting, one pass")])
        report = model.count(task.sequences())
        screen.say(f"counted: {report}, at most {peak_memory(torch.device('cpu')) / 2**30:.2f} GiB")
        values = task.validate(model)
        if values:
            (run / "metrics.jsonl").unlink(missing_ok=True)  # what a stopped count may have left
            with MetricsFile(run, 0, tensorboard=False) as metrics:
                samples = task.samples(model)
                metrics.add_validation(0, values, samples)
                screen.validation(0, values, True, samples)
        result = Result(
            steps=0,
            reason="all counted",
            weights="the counts of the training text",
            values=values,
            best_step=None,
            tokens=report.n_tokens,
            seconds=report.seconds,
            peak_memory=peak_memory(device),
        )
        save_weights(weights_of(model), run / MODEL)
        write_card(run, prepared.about, result, MODEL, prepared.recipe.training, environment)
        screen.say(f"done: {run / MODEL} holds {result.weights}")
    return result


@dataclass(frozen=True)
class ByHeart:
    first: float  # nats a prediction before learning
    last: float
    steps: int


def learn_by_heart(prepared: Prepared, device: torch.device, seconds: float) -> ByHeart:
    """The quickest test that data, model and loss fit together: one batch, learned by heart.

    Dropout and smoothing off; a fresh Adam at a rate that suits most sizes; stops early when it is learned.
    """
    model, task = prepared.model.to(device).eval(), prepared.task  # eval: no dropout
    batch = task.small_batch(TOKENS).to(device)
    rate = min(2e-3, 0.25 / prepared.recipe.d_model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, 0.98))
    begin = time.monotonic()
    losses: list[float] = []
    while True:
        set_learning_rate(optimizer, rate * min(1.0, (len(losses) + 1) / 20))
        loss = task.plain_loss(model, batch) / batch.n_targets
        losses.append(float(loss.detach()))
        if losses[-1] < ENOUGH or time.monotonic() - begin > seconds:
            break
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return ByHeart(losses[0], losses[-1], len(losses))
