"""How far a training has come: all of its state that is not a tensor."""

import math
from dataclasses import dataclass

from regard.learning.config import TrainingConfig


@dataclass(kw_only=True)
class Progress:
    step: int = 0  # updates done
    epoch: int = 0  # (epoch, index) is the next batch
    index: int = 0
    n_batches: int = 0  # of that epoch, to notice on resume that the data have changed
    tokens: int = 0
    seconds: float = 0.0
    validated: int = 0  # the step of the last validation
    waited: int = 0  # validations since the best one
    best_step: int | None = None
    best_value: float | None = None

    @property
    def position(self) -> tuple[int, int]:
        return self.epoch, self.index

    def is_over(self, config: TrainingConfig) -> bool:
        out_of_patience = bool(config.patience) and self.waited >= config.patience
        return self.step >= config.steps or out_of_patience

    def is_validation_due(self, config: TrainingConfig) -> bool:
        if not config.validate_every or self.validated == self.step:
            return False
        return self.step % config.validate_every == 0 or self.step >= config.steps

    def note_validation(self, value: float, higher_is_better: bool) -> bool:
        """Remember a validation; returns whether it is the best so far."""
        self.validated = self.step
        if is_better(value, self.best_value, higher_is_better):
            self.best_step, self.best_value, self.waited = self.step, value, 0
            return True
        self.waited += 1
        return False


def is_better(value: float, other: float | None, higher_is_better: bool) -> bool:
    if math.isnan(value):
        return False
    if other is None:
        return True
    return value > other if higher_is_better else value < other
