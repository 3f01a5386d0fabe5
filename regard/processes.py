"""The processes that work on one run together, as `torchrun` starts them; usually there is one.

Rank 0 leads: it alone writes.  All take the same decisions, because they know the same: what only one has found is
gathered, or said by the leader.  These messages go through the host (gloo), and are bytes, JSON or safetensors.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from safetensors.torch import load, save
from torch import Tensor, distributed
from torch.distributed import PrefixStore
from torch.distributed.rendezvous import rendezvous

from regard.errors import RegardError

T = TypeVar("T")
R = TypeVar("R")
CONNECTIONS = ("gloo", "nccl", "connection", "timed out", "socket")  # what errors of an exchange speak of
PREPARING = timedelta(days=7)  # the others wait as long for the leader, who may have much text to cut into tokens


class LostWorker(RegardError):
    """Another process of the same training has ended or does not answer."""


@dataclass(frozen=True)
class Processes:
    rank: int = 0
    n: int = 1
    patient: "distributed.ProcessGroup | None" = None  # all of them, for what may take long; None: nobody joined

    @property
    def are_joined(self) -> bool:
        """Whether PyTorch's engines can be used: `torchrun` started this, even if it started one process alone."""
        return self.patient is not None

    @property
    def is_leader(self) -> bool:
        return self.rank == 0

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """What each process has, by rank."""
        if self.n == 1:
            return [content]
        with others_noticed():
            sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.n)]
            distributed.all_gather(sizes, torch.tensor([len(content)]))
            longest = max(int(size) for size in sizes)
            padded = torch.frombuffer(bytearray(content.ljust(longest + 1, b"\0")), dtype=torch.uint8)
            gathered = [torch.empty_like(padded) for _ in range(self.n)]
            distributed.all_gather(gathered, padded)
        return [bytes(row[: int(size)].numpy()) for row, size in zip(gathered, sizes, strict=True)]

    def gather(self, record: T) -> list[T]:
        """The same of what JSON can say and gives back as it was."""
        return [record] if self.n == 1 else [json.loads(row) for row in self.gather_bytes(json.dumps(record).encode())]

    def agree(self, record: T) -> T:
        """What the leader says, for all."""
        return self.gather(record)[0]

    def total(self, numbers: Sequence[int]) -> list[int]:
        if self.n == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.long)
        with others_noticed():
            distributed.all_reduce(sums)
        return sums.tolist()

    def gather_tensors(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Those of all processes, by name; of one that several have, that of the lowest rank."""
        if self.n == 1:
            return tensors
        names = [set(row) for row in self.gather(sorted(tensors))]
        known = set.intersection(*names).union(*names[: self.rank])  # to all, or sent by one before this
        sent = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items() if name not in known}
        rows = [load(content) for content in self.gather_bytes(save(sent))]
        return {name: tensor for row in rows for name, tensor in row.items()} | tensors

    def swap(self, tensor: Tensor, partner: int) -> Tensor:
        """What another process has in place of this tensor, while it gets ours."""
        theirs = torch.empty_like(tensor)
        with others_noticed():
            sent, received = distributed.isend(tensor, partner), distributed.irecv(theirs, partner)
            for work in (sent, received):
                assert work is not None
                work.wait()
        return theirs

    def wait(self) -> None:
        """Until all have come here."""
        self.total([0])

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """The leader does it alone; the others follow, unless it fails."""
        if self.is_leader:
            is_done = False
            try:
                yield
                is_done = True
            finally:
                self.said_by_leader(is_done)
        elif self.said_by_leader(False):
            yield
        else:
            raise LostWorker("the first process could not go on; its message says why")

    def said_by_leader(self, is_done: bool) -> bool:
        if self.n == 1:
            return is_done
        answer = torch.tensor([int(is_done)])
        with others_noticed():
            distributed.broadcast(answer, 0, group=self.patient)
        return bool(answer)


ALONE = Processes()


@contextmanager
def others_noticed() -> Iterator[None]:
    """A process that ends closes its connections, so the others learn of it at their next exchange."""
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error).lower() for word in CONNECTIONS):
            raise
        raise LostWorker(
            "another process of this training has ended or does not answer; what was saved is whole. `torchrun "
            f"--max-restarts N` starts all of them again ({str(error).splitlines()[0][:200]})"
        ) from error


def n_started() -> int:
    """How many processes `torchrun` has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def local_rank() -> int:
    """The place of this process among those of its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


@contextmanager
def joined(device: torch.device, seconds: float) -> Iterator[Processes]:
    """All processes that were started with this one.  One that does not answer for so many seconds is given up."""
    if "RANK" not in os.environ or (n_started() == 1 and "MASTER_ADDR" not in os.environ):
        yield ALONE  # a RANK alone may be another program's
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    patience = timedelta(seconds=seconds)
    with others_noticed():
        store, rank, n = next(rendezvous("env://", timeout=patience))
        # torchrun's agent keeps its store when it starts all again: without a name of their own, processes would find
        # the addresses of those that were there before them.
        attempt = PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
        distributed.init_process_group(backend, store=attempt, rank=rank, world_size=n, timeout=patience)
        patient = distributed.new_group(backend="gloo", timeout=PREPARING)
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size(), patient)
    finally:
        distributed.destroy_process_group()


@dataclass(frozen=True)
class Sharing:
    """How what is measured is divided: into a number of parts, of which each process takes its own."""

    processes: Processes = ALONE
    n_parts: int = 1


SHARING: ContextVar[Sharing] = ContextVar("sharing")
NOBODY = Sharing()


@contextmanager
def sharing(how: Sharing) -> Iterator[None]:
    """While this lasts, `spread` and `spread_lines` divide the work; all processes must call them alike."""
    before = SHARING.set(how)
    try:
        yield
    finally:
        SHARING.reset(before)


def spread(items: Sequence[T], compute: Callable[[T], Tensor]) -> list[Tensor]:
    """compute(item) of all items, in their order, on the host."""
    processes = SHARING.get(NOBODY).processes
    with sharing(NOBODY):  # what is computed here is not divided once more
        own = {i: compute(items[i]).cpu() for i in range(processes.rank, len(items), processes.n)}
    if processes.n == 1:
        return list(own.values())
    every = processes.gather_tensors({f"{i:012d}": tensor for i, tensor in own.items()})
    return [every[name] for name in sorted(every)]


def in_parts(n: int) -> list[tuple[int, int]]:
    """0 to n - 1 in runs [first, last), as many as there are parts: what is computed together depends on their number,
    not on that of processes."""
    n_parts = min(SHARING.get(NOBODY).n_parts, n)
    return [(i * n // n_parts, (i + 1) * n // n_parts) for i in range(n_parts)]


def spread_lines(lines: Sequence[T], compute: Callable[[list[T]], list[R]]) -> list[R]:
    """What JSON can say of each line.  What is computed together depends on the number of parts, not on that of
    processes."""
    how = SHARING.get(NOBODY)
    if how.n_parts == 1:
        return compute(list(lines))
    with sharing(NOBODY):
        own = {
            part: compute(list(lines[part :: how.n_parts])) if lines[part :: how.n_parts] else []
            for part in range(how.processes.rank, how.n_parts, how.processes.n)
        }
    outputs: dict[int, R] = {}
    for row in how.processes.gather(list(own.items())):
        for part, answers in row:
            outputs |= dict(zip(range(part, len(lines), how.n_parts), answers, strict=True))
    return [outputs[i] for i in range(len(lines))]
