"""A teacher in the loop: the loss of a student, and the layers that it begins with."""

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.nn.distillation import DistillationConfig, cosine_loss, soft_loss
from regard.runs.recipe import Recipe
from regard.runs.transfer import run_weights
from regard.runs.weights import set_weights, weights_of
from regard.tasks.table import TASKS
from regard.text.tokenizer import Tokenizer

LAYER = re.compile(r"(?<=blocks\.)\d+(?=\.)")


class Distilled:
    """A task with the loss soft T² KL(teacher || student) + hard (-log P(label)) + cosine (1 - cos(h, h_teacher)), each
    the mean of what it is of  (DistilBERT; Sanh et al. 2019).  All else is the task's own."""

    def __init__(self, task: Any, teacher: nn.Module, config: DistillationConfig):
        self.task, self.teacher, self.config = task, teacher, config
        self.metric: str = task.metric
        self.higher_is_better: bool = task.higher_is_better

    def n_batches(self, epoch: int) -> int:
        n: int = self.task.n_batches(epoch)
        return n

    def batch(self, epoch: int, index: int) -> Any:
        return self.task.batch(epoch, index)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        c = self.config
        logits, rows = self.task.predictions(model, batch)
        with torch.no_grad():
            their_logits, their_rows = self.task.predictions(self.teacher, batch)
        loss = c.hard * F.cross_entropy(logits.float(), batch.labels, reduction="sum")
        loss = loss + c.soft * soft_loss(logits, their_logits, c.temperature)
        return loss + c.cosine * batch.n_targets * cosine_loss(rows, their_rows) if c.cosine else loss

    def tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = self.task.tensors()
        return found

    def restore(self, tensors: dict[str, Tensor], model: nn.Module) -> None:
        self.task.restore(tensors, model)

    def validate(self, model: nn.Module) -> dict[str, float]:
        values: dict[str, float] = self.task.validate(model)
        return values

    def samples(self, model: nn.Module) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = self.task.samples(model)
        return found


def load_teacher(recipe: Recipe, tokenizer: Tokenizer) -> nn.Module:
    """The model of the run that a recipe names as its teacher; one that cannot teach it is refused."""
    folder = Path(recipe.distillation.teacher)
    if not (folder / "recipe.toml").is_file():
        raise ConfigError(f"distillation.teacher = {str(folder)!r} is no run: it has no recipe.toml; train one first")
    theirs = Recipe.read(str(folder.resolve()))
    if not hasattr(TASKS[recipe.kind][1], "predictions"):
        kinds = " and ".join(kind for kind, row in TASKS.items() if hasattr(row[1], "predictions"))
        raise ConfigError(f"the task {recipe.kind!r} cannot be distilled; these can: {kinds}")
    if Tokenizer.load(folder).to_json() != tokenizer.to_json():
        raise ConfigError(f"the teacher {folder} has another tokenizer than the run that this one begins with")
    if theirs.kind != recipe.kind:
        raise ConfigError(
            f"the teacher {folder} learnt the task {theirs.kind!r}, the student is to learn {recipe.kind!r}"
        )
    if getattr(recipe.task, "nsp", False) or getattr(recipe.task, "smoothing", 0.0):
        raise ConfigError("a student learns neither what follows nor smoothed labels: set nsp = false or smoothing = 0")
    if getattr(theirs.task, "labels", ()) != getattr(recipe.task, "labels", ()):
        raise ConfigError(f"the teacher {folder} knows other labels: {', '.join(theirs.task.labels)}")
    if theirs.model.max_length < recipe.model.max_length:
        raise ConfigError(
            f"the teacher reads {theirs.model.max_length} tokens, fewer than model.max_length = "
            f"{recipe.model.max_length}; lower that"
        )
    if recipe.distillation.cosine and theirs.d_model != recipe.d_model:
        raise ConfigError(
            f"hidden rows of {recipe.d_model} and {theirs.d_model} channels have no angle between them: "
            f"set model.d_model = {theirs.d_model} or distillation.cosine = 0"
        )
    model: nn.Module = theirs.build_model()
    set_weights(model, run_weights(folder), str(folder))
    return model.eval().requires_grad_(False)


def take_layers(model: nn.Module, teacher: nn.Module) -> str:
    """Begin with what the teacher has: of its L layers, for n, every (L / n)-th, and all else that has the same shape.
    Returns what was taken, in words."""
    own, theirs = weights_of(model), weights_of(teacher)
    n_own, n_theirs = (
        1 + max((int(n) for name in names for n in LAYER.findall(name)), default=0) for names in (own, theirs)
    )
    sources = {name: LAYER.sub(lambda found: str(int(found[0]) * n_theirs // n_own), name) for name in own}
    taken = {
        name: theirs[source]
        for name, source in sources.items()
        if source in theirs and theirs[source].shape == own[name].shape
    }
    set_weights(model, {**own, **taken}, "the teacher")
    layers = ", ".join(str(i * n_theirs // n_own) for i in range(n_own))
    return f"{len(taken)} of {len(own)} tensors; layers {layers} of {n_theirs}" if taken else "nothing: other shapes"
