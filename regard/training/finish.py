"""Which weights a finished training keeps: the best by validation, an average counted among them; and their file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import RunError
from regard.nn.lora import LoraConfig, merged
from regard.runs.checkpoints import ADAPTER, MODEL, Checkpoints, TrainingProgress, is_better, step_folder
from regard.runs.durable import resume_command
from regard.runs.history import number, read_metrics
from regard.runs.weights import save_weights, set_weights, weights_of
from regard.training.learner import Learner
from regard.training.signals import Signals


def choose_weights(
    learner: Learner, progress: TrainingProgress, checkpoints: Checkpoints, run: Path, signals: Signals
) -> tuple[str, dict[str, float]]:
    """Give the model its final weights; returns which these are, in words, and their validation.

    The average of the last checkpoints is validated like any other weights and taken where it is better than every
    single checkpoint; without validation it is taken unseen.
    """
    task, config = learner.task, learner.config
    steps = checkpoints.regular()[-config.average :] if config.average else []
    if len(steps) > 1:
        with advised(f"{resume_command(run)} --set training.average=0", "the average needs it"):
            average_checkpoints(learner.model, checkpoints, steps)
        what = f"the average of steps {', '.join(map(str, steps))}"
        if not config.validate_every:
            return what, {}
        with learner.resting(), signals.interruptible():
            values = learner.team.processes.agree(task.validate(learner.model))
        if is_better(values[task.config.metric], progress.best_value, task.higher_is_better):
            return what, values
    step = progress.step if progress.best_step is None else progress.best_step
    with advised(f"rm -r {step_folder(checkpoints.folder, step)}; {resume_command(run)}", "it was the best"):
        tensors = checkpoints.load(step, files=("model", "ema")).tensors
    which = "ema" if "ema" in tensors else "model"  # as it was validated: a resume may have changed training.ema since
    set_weights(learner.model, tensors[which], str(step_folder(checkpoints.folder, step)))
    what = f"step {step}, " + ("the last" if progress.best_step is None else f"the best by {task.config.metric}")
    return what + (" (running average)" if which == "ema" else ""), values_at(run, step)


def expected_figures(learner: Learner, signals: Signals) -> dict[str, float]:
    """What the outputs of the final weights are like on the validation set."""
    with learner.resting(), signals.interruptible():
        return learner.task.expected(learner.model)


@contextmanager
def advised(command: str, why: str) -> Iterator[None]:
    """A checkpoint that is needed and damaged stops the end of a training: say how to go on without it."""
    try:
        yield
    except RunError as error:
        raise RunError(f"{error}; {why}. Bring it back from a copy, or go on without it: {command}") from None


def average_checkpoints(model: nn.Module, checkpoints: Checkpoints, steps: list[int]) -> None:
    """Give the model the mean of these checkpoints' weights.  Summed in float64, so their order does not matter."""
    sums: dict[str, Tensor] = {}
    newest = checkpoints.load(steps[-1], files=("model",)).tensors["model"]
    for step in steps:
        for name, tensor in checkpoints.load(step, files=("model",)).tensors["model"].items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + tensor.double()
    means = {name: (total / len(steps)).to(newest[name].dtype) for name, total in sums.items()}
    set_weights(model, {**newest, **means}, f"the average of steps {steps}")


def save_finished(model: nn.Module, lora: LoraConfig, run: Path) -> Path:
    """Write the weights: all of them, adapters merged into what they adapt, or only those that learned."""
    tensors = weights_of(model)
    if lora.rank and not lora.merge:
        learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        path, tensors = run / ADAPTER, {name: tensors[name] for name in sorted(learned)}
    else:
        path, tensors = run / MODEL, merged(tensors, lora.scale)
    save_weights(tensors, path)
    return path


def values_at(run: Path, step: int) -> dict[str, float]:
    """The validation of a step, from metrics.jsonl."""
    for row in read_metrics(run / "metrics.jsonl"):
        if row["step"] == step and row["kind"] == "valid":
            values = {name: number(row, name) for name in row if name != "step"}
            return {name: value for name, value in values.items() if value is not None}
    return {}
