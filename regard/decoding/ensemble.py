"""Several models as one: P(token) is the mean of their probabilities."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from regard.decoding.interface import Generator
from regard.errors import RunError


@dataclass
class EnsembleState:
    parts: list[Any]  # one state per model

    @property
    def n_rows(self) -> int:
        return self.parts[0].n_rows

    @property
    def lengths(self) -> Tensor:
        return self.parts[0].lengths

    def select(self, rows: Tensor) -> None:
        for part in self.parts:
            part.select(rows)

    def reorder(self, rows: Tensor) -> None:
        for part in self.parts:
            part.reorder(rows)

    def truncate(self, lengths: Tensor) -> None:
        for part in self.parts:
            part.truncate(lengths)

    def join(self, other: Self) -> None:
        for part, others in zip(self.parts, other.parts, strict=True):
            part.join(others)


class Ensemble:
    """All models must share one vocabulary."""

    def __init__(self, models: Sequence[Generator[Any]]) -> None:
        if not models:
            raise RunError("an ensemble needs at least one run")
        self.models = models

    def start(self, prompts: list[list[int]], copies: int = 1, room: int = 256) -> EnsembleState:
        return EnsembleState([model.start(prompts, copies, room) for model in self.models])

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """log of the mean probability: logits that are already normalised."""
        total: Tensor | None = None
        for model, part in zip(self.models, state.parts, strict=True):
            log_probs = model.step(tokens, part).float().log_softmax(-1)
            if total is not None and total.shape != log_probs.shape:
                sizes = f"{total.shape[-1]} and {log_probs.shape[-1]}"
                raise RunError(f"the runs of an ensemble must share a vocabulary; these have {sizes} tokens")
            total = log_probs if total is None else torch.logaddexp(total, log_probs)
        assert total is not None
        return total - math.log(len(self.models))
