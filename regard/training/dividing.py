"""A batch that does not fit into memory is divided; the gradients of its parts add up to those of the whole."""

from collections.abc import Callable
from typing import Generic

import torch
from torch import Tensor

from regard.memory import TooLarge, ran_out
from regard.tasks.setup import B
from regard.training.recording import Learn


class Divider(Generic[B]):
    """Adds the gradients of batches to those of the weights, and remembers what did not fit.

    A pass that runs out of memory may have added some of its gradients, so the step begins again: `reset` brings back
    what was before it.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.too_many: int | None = None  # tokens of the smallest batch that did not fit
        self.notes: list[str] = []  # to be said

    def __call__(self, batches: list[B], learn: Learn[B], reset: Callable[[], None]) -> Tensor:
        """The mean loss over all targets."""
        n_targets = torch.full((), float(sum(batch.n_targets for batch in batches)), device=self.device)
        parts = [part for batch in batches for part in self.fitting(batch)]
        while True:
            loss, failed = torch.zeros((), device=self.device), None
            for number, part in enumerate(parts):
                try:
                    loss += learn(part, n_targets)
                except RuntimeError as error:
                    if not ran_out(error):
                        raise
                    failed = number
                    break
            if failed is None:
                return loss
            # Only now: the error held on to all that the pass had made.
            parts[failed : failed + 1] = self.divided(parts[failed])
            reset()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def fitting(self, batch: B) -> list[B]:
        """Its parts that are smaller than what did not fit."""
        if self.too_many is None or batch.n_tokens < self.too_many:
            return [batch]
        return [part for half in batch.halves() for part in self.fitting(half)] or [batch]

    def divided(self, batch: B) -> list[B]:
        halves = batch.halves()
        if not halves:
            raise TooLarge(
                f"a batch of {batch.n_tokens:,} tokens does not fit into memory and cannot be divided; lower "
                "data.batch_tokens or data.max_length, or set training.checkpointing = true"
            )
        self.too_many = min(batch.n_tokens, self.too_many or batch.n_tokens)
        self.notes.append(
            f"a batch of {batch.n_tokens:,} tokens did not fit into memory: from now on such batches are divided. "
            "Their gradients are the same, but for what dropout draws; smaller batches are faster: lower "
            "data.batch_tokens"
        )
        return halves

    def said(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes
