"""What every rung may spend: as many steps, and so as many tokens, or as much time."""

import copy
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from regard.learning.config import TrainingConfig
from regard.runs.recipe import Recipe
from regard.training.environment import reproducible
from regard.training.learner import Learner
from regard.training.prepare import Prepared

TIMED = 8  # steps
N_VALIDATIONS = 5  # of a training, the last one at its end
VALIDATING = 0.2  # of the time at most
WARMUP = 0.1  # of the steps


@dataclass(frozen=True, kw_only=True)
class Budget:
    """One of the two."""

    steps: int | None = None
    seconds: float | None = None

    def words(self) -> str:
        if self.seconds is not None:
            return f"{self.seconds:g} seconds of training each"
        return f"{self.steps:,} steps each"


class Course(NamedTuple):
    """All settings of a training that follow from its steps."""

    steps: int
    warmup: int
    validate_every: int
    save_every: int

    @classmethod
    def of(cls, training: TrainingConfig) -> "Course":
        return cls(training.steps, training.warmup, training.validate_every, training.save_every)

    def put_into(self, recipe: Recipe) -> Recipe:
        return replace(recipe, training=replace(recipe.training, **self._asdict()))


def course(steps: int, n_validations: int = N_VALIDATIONS) -> Course:
    every = -(-steps // n_validations)
    return Course(steps, int(WARMUP * steps), validate_every=every, save_every=every)


def course_in(seconds: float, prepared: Prepared, device: torch.device) -> Course:
    """As many steps as fit into the time, with the validations between: measured on a copy, which is thrown away."""
    task, recipe = prepared.task, prepared.recipe
    learner = Learner(copy.deepcopy(prepared.model).to(device).train(), task, recipe.training, device, recipe.d_model)
    with reproducible(device):
        for step in range(1, TIMED + 1):
            if step == TIMED // 2 + 1:  # the first ones set up memory and kernels
                learner.read()
                begin = time.perf_counter()
            place = 0, (step - 1) % task.n_batches(0)
            learner.update(step, [task.batch(*place).to(device)], [place])
        learner.read()  # which waits for the device
        for_a_step = (time.perf_counter() - begin) / (TIMED - TIMED // 2)
        with learner.resting():
            begin = time.perf_counter()
            task.validate(learner.model)
        for_a_validation = time.perf_counter() - begin
    n_between = min(N_VALIDATIONS - 1, int(VALIDATING * seconds / for_a_validation))
    return course(max(1, int((seconds - n_between * for_a_validation) / for_a_step)), n_between + 1)
