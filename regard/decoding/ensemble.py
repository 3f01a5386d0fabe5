"""Several models as one: P(token) is the mean of their probabilities."""

import math
from collections.abc import Sequence
from functools import reduce

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
    def device(self) -> torch.device:
        return self.models[0].device

    def halved(self) -> "Ensemble":
        return Ensemble([model.halved() for model in self.models])

    @property
    def max_length(self) -> int:
        return min(model.max_length for model in self.models)

    def check_room(self, n_rows: int, room: int) -> None:
        for model in self.models:
            model.check_room(len(self.models) * n_rows, room)

    @property
    def reads_on(self) -> bool:
        return all(model.reads_on for model in self.models)

    def start(self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256) -> tuple[JointState, Tensor]:
        states, first = zip(*(model.start(prompts, begin, copies, room) for model in self.models), strict=True)
        return JointState(*states), self.mean(first)

    def step(self, tokens: Tensor, state: JointState) -> Tensor:
        parts = zip(self.models, state.parts, strict=True)
        return self.mean([model.step(tokens, part) for model, part in parts])

    def mean(self, logits: Sequence[Tensor]) -> Tensor:
        """log of the mean probability: logits that are already normalized."""
        sizes = list(dict.fromkeys(part.shape[-1] for part in logits))
        if len(sizes) > 1:
            counts = " and ".join(map(str, sizes))
            raise RunError(f"the runs of an ensemble must share a vocabulary; these have {counts} tokens")
        log_probs = [part.float().log_softmax(-1) for part in logits]
        return reduce(torch.logaddexp, log_probs) - math.log(len(self.models))
