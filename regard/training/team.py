"""The processes of a training and their shares: which virtual shards each learns from, and what chance depends on."""

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.errors import ConfigError
from regard.learning.distribution import NO_DISTRIBUTION, DistributionConfig
from regard.nn.masked_weights import MaskedWeights
from regard.processes import ALONE, Processes, Sharing
from regard.runs.durable import write_file

JOB = "job"  # in a run folder: the call of `torchrun` that began it


@dataclass(frozen=True)
class Team:
    processes: Processes = ALONE
    config: DistributionConfig = NO_DISTRIBUTION

    @property
    def shards(self) -> range:
        """The virtual shards of this process, side by side."""
        n = self.config.n_shards // self.processes.n
        return range(n * self.processes.rank, n * (self.processes.rank + 1))

    @property
    def way(self) -> str:
        """How gradients come about, a row of `WAYS`; "": as in one process."""
        return "exact" if self.config.exact else "" if self.config.kind == "none" else self.config.kind

    @property
    def is_leader(self) -> bool:
        return self.processes.is_leader

    @property
    def writers(self) -> Processes:
        """Who writes checkpoints: all, where they divide the weights; otherwise each for itself, and only one does."""
        return self.processes if self.way == "sharded" else ALONE

    @property
    def sharing(self) -> Sharing:
        """How a validation is divided; where all must be exact, by shards, however many processes there are."""
        return Sharing(self.processes, self.config.n_shards if self.config.exact else self.processes.n)

    def rows(self) -> list[tuple[str, str]]:
        """For the screen."""
        return [("distribution", self.describe())] if self.way else []

    def describe(self) -> str:
        n, c = self.processes.n, self.config
        shared = f"{n} process{'es' if n > 1 else ''}, {c.n_shards} virtual shards of every batch"
        return f"{c.kind}: {shared}" + (f", exact, {c.threads} threads each" if c.exact else "")


LONE = Team()


def check_device(config: DistributionConfig, device: torch.device) -> None:
    if config.exact and device.type != "cpu":
        raise ConfigError(
            "distribution.exact = true promises equal bits on a CPU alone: add --device cpu, or "
            "--set distribution.exact=false"
        )


@contextmanager
def threads_of(config: DistributionConfig) -> Iterator[None]:
    """As many as an exact training needs: sums over more of them have another order."""
    before = torch.get_num_threads()
    if config.exact:
        torch.set_num_threads(config.threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seed_of(*numbers: int) -> int:
    """Any numbers as one, which differs for all of them."""
    named = ",".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big") >> 1


def seed_shard(seed: int, step: int, shard: int) -> None:
    """Dropout of a shard depends on (seed, step, shard), so it is the same in whichever process it is drawn."""
    torch.manual_seed(seed_of(seed, step, shard))


def seed_masks(model: nn.Module, seed: int, step: int) -> None:
    """Masks of weights depend on (seed, step): all shards learn with the same weights."""
    for number, module in enumerate(model.modules()):
        if isinstance(module, MaskedWeights):
            module.mask_seed = seed_of(seed, step, -1, number)


def job_name() -> str:
    """The call of `torchrun` that this process belongs to; "": there is none.

    Names that the user did not choose hold for restarts by the same agent alone."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return f"{name} of {socket.gethostname()}, process {os.getppid()}" if name in ("", "none") else name


def is_restarted(folder: Path) -> bool:
    """Whether a run was begun by this very job, which lost a worker since: then it goes on."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or not (folder / "recipe.toml").is_file():
        return False
    path = folder / JOB
    return path.is_file() and path.read_text(encoding="utf-8") == job_name()


def note_job(folder: Path) -> None:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        write_file(folder / JOB, job_name().encode())
