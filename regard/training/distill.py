"""A teacher in the loop: the loss of a student, and the layers that it begins with."""

import re
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching.batch import Batch
from regard.errors import ConfigError
from regard.models.interface import Model
from regard.nn.loss import DistillationConfig, cosine_loss, soft_loss
from regard.runs.recipe import Recipe
from regard.runs.transfer import trained_model
from regard.runs.weights import set_weights, weights_of
from regard.tasks.setup import TaskConfig
from regard.tasks.task import AnyTask
from regard.text.tokenizer import Tokenizer

LAYER = re.compile(r"(?<=blocks\.)\d+(?=\.)")


def distilled_loss(
    task: AnyTask, teacher: nn.Module, config: DistillationConfig, model: nn.Module, batch: Batch
) -> Tensor:
    """soft T² KL(teacher || student) + hard (-log P(label)) + cosine (1 - cos(h, h_teacher)), each the mean of what it
    is of  (DistilBERT; Sanh et al. 2019)."""
    logits, labels, rows = task.predictions(model, batch)
    with torch.no_grad():
        their_logits, _, their_rows = task.predictions(teacher, batch)
    loss = config.hard * F.cross_entropy(logits.float(), labels, reduction="sum")
    loss = loss + config.soft * soft_loss(logits, their_logits, config.temperature)
    return loss + config.cosine * batch.n_targets * cosine_loss(rows, their_rows) if config.cosine else loss


def helping_recipe(setting: str, folder: Path, tokenizer: Tokenizer) -> Recipe:
    """Of a run that helps another to learn, and reads the same tokens."""
    if not (folder / "recipe.toml").is_file():
        raise ConfigError(f"{setting} = {str(folder)!r} is not a run folder: train one first")
    if Tokenizer.load(folder).to_json() != tokenizer.to_json():
        name = setting.rpartition(".")[2]
        raise ConfigError(f"the {name} {folder} has a different tokenizer from the run that this one begins with")
    return Recipe.of_run(folder)


def load_judge(recipe: Recipe, tokenizer: Tokenizer) -> tuple[Model, TaskConfig]:
    """The model of the run that says how good an output is, and what that was trained for."""
    folder = Path(recipe.task.judging_run)
    theirs = helping_recipe("task.judge", folder, tokenizer)
    if theirs.model.max_length < recipe.model.max_length:
        raise ConfigError(
            f"the judge reads {theirs.model.max_length} tokens, fewer than model.max_length = "
            f"{recipe.model.max_length}; lower that"
        )
    return trained_model(folder, theirs)[0].eval().requires_grad_(False), theirs.task


def load_teacher(recipe: Recipe, tokenizer: Tokenizer) -> Model:
    """The model of the run that a recipe names as its teacher; one that cannot teach it is refused."""
    folder = Path(recipe.distillation.teacher)
    theirs = helping_recipe("distillation.teacher", folder, tokenizer)
    if theirs.task_class is not recipe.task_class:
        raise ConfigError(f"the teacher {folder} was trained for another task than the student")
    recipe.task.refuse_teacher(theirs.task)
    if theirs.model.max_length < recipe.model.max_length:
        raise ConfigError(
            f"the teacher reads {theirs.model.max_length} tokens, fewer than model.max_length = "
            f"{recipe.model.max_length}; lower that"
        )
    if recipe.distillation.cosine and theirs.d_model != recipe.d_model:
        raise ConfigError(
            f"the cosine loss compares hidden rows of one width; the student has {recipe.d_model}: "
            f"set model.d_model = {theirs.d_model} or distillation.cosine = 0"
        )
    model = trained_model(folder, theirs)[0]
    model.requires_grad_(False)
    return model


def take_layers(model: nn.Module, teacher: nn.Module) -> str:
    """Begin with what the teacher has: of its L layers, for n, every (L / n)-th, and all else that has the same shape.
    Returns what was taken, in words."""
    own, theirs = weights_of(model), weights_of(teacher)
    n_own, n_theirs = (
        1 + max((int(n) for name in names for n in LAYER.findall(name)), default=0) for names in (own, theirs)
    )
    sources = {name: LAYER.sub(lambda layer: str(int(layer[0]) * n_theirs // n_own), name) for name in own}
    taken = {
        name: theirs[source]
        for name, source in sources.items()
        if source in theirs and theirs[source].shape == own[name].shape
    }
    set_weights(model, {**own, **taken}, "the teacher")
    layers = ", ".join(str(i * n_theirs // n_own) for i in range(n_own))
    return f"{len(taken)} of {len(own)} tensors; layers {layers} of {n_theirs}" if taken else "nothing: other shapes"
