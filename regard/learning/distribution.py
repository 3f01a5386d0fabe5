"""The [distribution] table of a recipe: how many processes train together, as `torchrun` starts them."""

from dataclasses import dataclass, replace
from typing import Self

from regard.checks import at_least, at_most, not_negative, one_of, positive
from regard.errors import ConfigError

KINDS = ("none", "data", "sharded")


@dataclass(frozen=True, kw_only=True)
class DistributionConfig:
    # `none` (one process; several become `data`), `data` (each process has the whole model and reads its share of every
    # batch: DDP) or `sharded` (each also keeps only its share of the weights, gradients and moments: FSDP2)
    kind: str = "none"
    # virtual shards V that every batch of `data.batch_tokens` is made of, a power of two; the processes divide them
    # among each other, so it is the most that can take part; 0: as many as there are processes
    shards: int = 0
    exact: bool = False  # the same weights bit for bit, however many processes take part; for `data` on a CPU
    threads: int = 1  # of each process, with `exact`: sums depend on them
    timeout: float = 600.0  # seconds after which a process that does not answer is given up

    def __post_init__(self) -> None:
        one_of(self, KINDS, "kind")
        not_negative(self, "shards")
        at_most(self, 2**16, "shards")
        at_least(self, 1, "threads")
        positive(self, "timeout")
        if self.shards & (self.shards - 1):
            raise ConfigError(f"shards must be a power of two, got {self.shards}")
        if self.exact and self.kind != "data":
            raise ConfigError(f'exact = true needs kind = "data", got kind = "{self.kind}"')
        if self.exact and not self.shards:
            raise ConfigError("exact = true needs shards, a power of two: weights depend on it, not on the processes")
        if self.shards > 1 and self.kind == "none":
            raise ConfigError(f'shards = {self.shards} needs kind = "data" or "sharded"')

    @property
    def n_shards(self) -> int:
        return max(self.shards, 1)

    def for_processes(self, n: int) -> Self:
        """With what is left open settled; raises where so many processes cannot share the work."""
        if n & (n - 1):
            raise ConfigError(f"the number of processes must be a power of two, got {n}")
        kind = "data" if n > 1 and self.kind == "none" else self.kind
        shards = self.shards or (n if kind != "none" else 0)
        if shards and shards % n:
            raise ConfigError(
                f"{n} processes cannot share distribution.shards = {shards}: start at most {shards}, or begin another "
                f"run with --set distribution.shards={n}"
            )
        return replace(self, kind=kind, shards=shards)


NO_DISTRIBUTION = DistributionConfig()
