"""The gradients of a step that several processes compute together; afterwards each of them has their sum."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Generic

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm

from regard.data.batching.batch import Batch
from regard.models.interface import Model
from regard.processes import others_noticed
from regard.tasks.setup import B
from regard.training.team import Team, seed_masks, seed_shard


class Together(ABC, Generic[B]):
    """Adds the gradients of a step to those of the weights; what is drawn by chance depends on (seed, step, shard)."""

    def __init__(self, model: Model, loss: Callable[[B], Tensor], team: Team, seed: int, device: torch.device) -> None:
        self.model, self.loss, self.team, self.seed, self.device = model, loss, team, seed, device
        self.processes = team.processes

    def __call__(self, step: int, batches: Sequence[B]) -> tuple[Tensor, int]:
        """The batches of this process, of each of its shards in turn -> the mean loss of all processes' targets, and
        how many tokens they read."""
        counts = [sum(batch.n_targets for batch in batches), sum(batch.n_tokens for batch in batches)]
        n_targets, n_tokens = self.processes.total(counts)
        seed_masks(self.model, self.seed, step)
        return self.add_gradients(step, batches, torch.full((), float(n_targets), device=self.device)), n_tokens

    @abstractmethod
    def add_gradients(self, step: int, batches: Sequence[B], n_targets: Tensor) -> Tensor:
        """The same; returns the loss."""

    def of_shards(self, batches: Sequence[B]) -> Iterable[tuple[int, Sequence[B]]]:
        """Each virtual shard of this process, and its batches."""
        shards = self.team.shards
        return ((shard, batches[i :: len(shards)]) for i, shard in enumerate(shards))

    def norm(self, gradients: list[Tensor]) -> Tensor:
        return get_total_norm(gradients)

    def gathered(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors: those that this process writes, where all do; all processes must ask."""
        return tensors

    def divided(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors of weights, or of what belongs to a weight ("name/what"), as this process keeps them."""
        return tensors

    def united(self) -> Model:
        """The model with whole weights; all processes must ask."""
        return self.model

    def price(self) -> str:
        """What it took, in words; "": it is not known."""
        return ""


class LossModule(nn.Module):
    """A loss as a module, for what PyTorch wraps around modules."""

    def __init__(self, model: nn.Module, loss: Callable[[Any], Tensor]) -> None:  # of the task's own batches
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: Batch) -> Tensor:
        return self.loss(batch)


class ReplicatedGradients(Together[B]):
    """DistributedDataParallel of PyTorch, which adds while it still computes, in an order of its own.

    Each process has the whole model; PyTorch takes the mean of what each of the n of them has found, so each finds
    n times its share."""

    def __init__(self, model: Model, loss: Callable[[B], Tensor], team: Team, seed: int, device: torch.device) -> None:
        super().__init__(model, loss, team, seed, device)
        self.module, self.parallel = LossModule(model, loss), None
        if team.processes.are_joined:
            with others_noticed(), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # the new name of an argument that 2.11 does not know
                self.parallel = DistributedDataParallel(
                    self.module,
                    broadcast_buffers=False,  # none changes in training
                    find_unused_parameters=True,  # a task may not read all that a model has
                )

    def add_gradients(self, step: int, batches: Sequence[B], n_targets: Tensor) -> Tensor:
        n, total, n_left = self.processes.n, torch.zeros((), device=self.device), len(batches)
        for shard, own in self.of_shards(batches):
            seed_shard(self.seed, step, shard)
            for batch in own:
                n_left -= 1
                without_sums = self.parallel.no_sync() if self.parallel and n_left else nullcontext()
                with without_sums, others_noticed():
                    loss = (self.parallel or self.module)(batch) / n_targets
                    (n * loss).backward()
                total += loss.detach()
        if self.parallel:
            with others_noticed():
                distributed.all_reduce(total)
        return total
