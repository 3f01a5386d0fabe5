"""Memory: how much of it there is, and a clear error before more is taken."""

import os
import resource
from pathlib import Path

from regard.errors import RegardError

LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container: "max" or bytes


class TooLarge(RegardError):
    """Something that does not fit into the memory of this machine."""


def check_memory(n_bytes: int, what: str, advice: str, free: int | None = None) -> None:
    """Raise where `what` needs more than there is: bytes that are free elsewhere, or else on this machine."""
    free = free_memory() if free is None else free
    if n_bytes > free:
        raise TooLarge(f"{what} needs about {gibibytes(n_bytes)}, and {gibibytes(free)} are free here; {advice}")


def free_memory() -> int:
    """Bytes that this process may still take: of the machine, of its container, and by its own limit."""
    free = resource.getpagesize() * os.sysconf("SC_PHYS_PAGES")
    if Path("/proc/meminfo").is_file():
        rows = (line.split() for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = min([free, *(1024 * int(row[1]) for row in rows if row[0] == "MemAvailable:")])
    if LIMIT.is_file() and (most := LIMIT.read_text(encoding="ascii").strip()).isdigit():
        free = min(free, int(most))
    most_addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most_addresses != resource.RLIM_INFINITY:
        free = min(free, most_addresses - addresses_taken())
    return max(free, 0)


def addresses_taken() -> int:
    """Bytes of address space that this process has; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text(encoding="ascii").split()[0]) * resource.getpagesize() if path.is_file() else 0


def gibibytes(n_bytes: int) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB"


def ran_out(error: BaseException) -> bool:
    """Whether this says that memory ran out; PyTorch has no type for it on a CPU."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    )
