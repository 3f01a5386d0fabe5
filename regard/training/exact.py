"""Gradients whose bits do not depend on the number of processes.

g = ((g_0 + g_1) + (g_2 + g_3)) + ...: the gradients of V virtual shards, added in a tree that depends on V alone.  A
process adds those of its own shards, which lie side by side and so are a branch of the tree; then pairs of processes
swap their sums and add them, and so do pairs of pairs.  a + b and b + a have the same bits, so both have the same sum.
"""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, distributed

from regard.models.interface import Model
from regard.processes import Processes, others_noticed
from regard.tasks.setup import B
from regard.training.team import Team, seed_shard
from regard.training.together import Together

ROUNDS = 5  # of the plain sums that exact ones are compared with


class ExactGradients(Together[B]):
    def __init__(self, model: Model, loss: Callable[[B], Tensor], team: Team, seed: int, device: torch.device) -> None:
        super().__init__(model, loss, team, seed, device)
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.begun, self.seconds, self.n_steps, self.n_numbers = time.monotonic(), 0.0, 0, 0

    def add_gradients(self, step: int, batches: Sequence[B], n_targets: Tensor) -> Tensor:
        tree = PairedSums()
        for shard, own in self.of_shards(batches):
            seed_shard(self.seed, step, shard)
            total = torch.zeros((), device=self.device)
            for batch in own:
                loss = self.loss(batch) / n_targets
                loss.backward()
                total += loss.detach()
            begun = time.monotonic()
            tree.add(self.take(total))
            self.seconds += time.monotonic() - begun
        begun = time.monotonic()
        loss = self.give(sum_of_all(tree.root(), self.processes))
        self.seconds += time.monotonic() - begun
        self.n_steps += 1
        return loss

    def take(self, loss: Tensor) -> Tensor:
        """All gradients as one row, which weights have any, and the loss; the weights then have none."""
        parts = [p.new_zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in self.parameters]
        present = loss.new_tensor([float(p.grad is not None) for p in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None
        return torch.cat([*parts, present, loss[None]])

    def give(self, row: Tensor) -> Tensor:
        """The opposite; returns the loss."""
        self.n_numbers = len(row)
        sizes = [parameter.numel() for parameter in self.parameters]
        *parts, present, loss = row.split([*sizes, len(sizes), 1])
        for parameter, part, is_present in zip(self.parameters, parts, present.tolist(), strict=True):
            parameter.grad = part.view_as(parameter) if is_present else None
        return loss[0]

    def price(self) -> str:
        share = self.seconds / max(time.monotonic() - self.begun, 1e-9)
        step = 1000 * self.seconds / max(self.n_steps, 1)
        text = f"sums in a fixed order took {share:.1%} of the time: {step:.2f} ms a step, with the wait for others"
        if self.processes.n == 1:
            return text
        row = torch.zeros(self.n_numbers)
        self.processes.wait()
        begun = time.monotonic()
        with others_noticed():
            for _ in range(ROUNDS):
                distributed.all_reduce(row)
        return (
            f"{text}; a plain all-reduce of as many numbers takes {1000 * (time.monotonic() - begun) / ROUNDS:.2f} ms"
        )


class PairedSums:
    """Sums of pairs, of pairs of pairs, ...: rows come one after the other, and log2 of them are kept at most."""

    def __init__(self) -> None:
        self.sums: list[tuple[int, Tensor]] = []  # how many rows each is of, and the sum

    def add(self, row: Tensor) -> None:
        n = 1
        while self.sums and self.sums[-1][0] == n:
            row, n = self.sums.pop()[1] + row, 2 * n
        self.sums.append((n, row))

    def root(self) -> Tensor:
        ((_, row),) = self.sums  # their number is a power of two
        return row


def sum_of_all(row: Tensor, processes: Processes) -> Tensor:
    """The sum of the rows of all processes, in the order of the tree."""
    distance = 1
    while distance < processes.n:
        row = row + processes.swap(row, processes.rank ^ distance)
        distance *= 2
    return row
