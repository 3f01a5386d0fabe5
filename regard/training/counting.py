"""Training by counting: one pass over the data, and the run is complete."""

from contextlib import closing
from pathlib import Path

import torch

from regard.errors import ConfigError
from regard.runs.card import Result, write_card, write_result
from regard.runs.checkpoints import refuse_existing
from regard.runs.durable import disk_errors_said
from regard.runs.environment import describe_environment, record_environment
from regard.runs.weights import save_weights, weights_of
from regard.training.environment import peak_memory
from regard.training.metrics import Metrics
from regard.training.prepare import Prepared
from regard.training.screen import Screen


@torch.no_grad()
def count(prepared: Prepared, run: Path, device: torch.device, resume: bool, screen: Screen) -> Result:
    """There are no steps to resume: a run that was stopped is counted again from the beginning."""
    if prepared.recipe.task.smoothing:
        raise ConfigError("task.smoothing smooths labels that are learned by gradients; for counts set model.smoothing")
    if prepared.recipe.task.blank:
        raise ConfigError("task.blank masks tokens for a model that learns by gradients; for counts set it to 0")
    if not resume:
        refuse_existing(run)
    model, task = prepared.model.to(device), prepared.task
    with disk_errors_said(run, lambda: "The data are untouched; count again."), closing(screen):
        environment = describe_environment(device, "float32", "eager")
        record_environment(run, environment, 0)
        screen.plan([*prepared.about.rows, ("training", "by counting, one pass")])
        report = model.count(task.sequences())
        screen.say(f"counted: {report}")
        values = task.validate(model)
        if values:
            (run / "metrics.jsonl").unlink(missing_ok=True)  # what a stopped count may have left
            with Metrics(run, 0, tensorboard=False) as metrics:
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
        save_weights(weights_of(model), run / "model.safetensors")
        write_result(run, result)
        write_card(run, prepared.about, result, "model.safetensors", prepared.recipe.training, environment)
        screen.say(f"done: {run / 'model.safetensors'} holds {result.weights}")
    return result
