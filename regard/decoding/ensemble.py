"""Several models as one: P(token) is the mean of their probabilities."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.interface import AnyGenerator, Prompts
from regard.errors import RunError
from regard.nn.state import JointState


class Ensemble:
    """All models must share one vocabulary."""

    is_capturable = False

    def __init__(self, models: Sequence[AnyGenerator]) -> None:
        if not models:
            raise RunError("an ensemble needs at least one run")
        self.models = models

    @property
    def max_length(self) -> int:
        return min(model.max_length for model in self.models)

    def check_room(self, n_rows: int, room: int) -> None:
        for model in self.models:
            model.check_room(len(self.models) * n_rows, room)

    def start(self, prompts: Prompts, copies: int = 1, room: int = 256) -> JointState:
        return JointState(*(model.start(prompts, copies, room) for model in self.models))

    def step(self, tokens: Tensor, state: JointState) -> Tensor:
        """log of the mean probability: logits that are already normalized."""
        total: Tensor | None = None
        for model, part in zip(self.models, state.parts, strict=True):
            log_probs = model.step(tokens, part).float().log_softmax(-1)
            if total is not None and total.shape != log_probs.shape:
                sizes = f"{total.shape[-1]} and {log_probs.shape[-1]}"
                raise RunError(f"the runs of an ensemble must share a vocabulary; these have {sizes} tokens")
            total = log_probs if total is None else torch.logaddexp(total, log_probs)
        assert total is not None
        return total - math.log(len(self.models))
