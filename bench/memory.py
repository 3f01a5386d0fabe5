"""The most memory that a piece of work takes."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from bench.timing import say

STATUS = Path("/proc/self/status")  # of Linux


class GpuPeak:
    """Bytes of the GPU above what was taken when this was made; None on a CPU, where nobody counts them."""

    def __init__(self, device: torch.device):
        self.device = device
        self.before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0

    def restart(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)

    def bytes(self) -> int | None:
        if self.device.type != "cuda":
            return None
        return torch.cuda.max_memory_allocated(self.device) - self.before


def process_peak(prepare: Callable[..., Callable[[], object]], *arguments: object) -> int | None:
    """Bytes that the work which `prepare` returns takes in a fresh process, above what the process had before it."""
    if not STATUS.exists():
        return None
    say("measuring memory, in another process")
    # A server imports what is needed once, and does nothing else: its children are fresh, and there at once.
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["torch", prepare.__module__])
    with ProcessPoolExecutor(1, fresh) as pool:
        return pool.submit(peak_here, prepare, arguments).result()


def peak_here(prepare: Callable[..., Callable[[], object]], arguments: tuple[object, ...]) -> int:
    work = prepare(*arguments)
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


def status(name: str) -> int:
    """VmRSS: memory held now; VmHWM: at most so far."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024  # given in KiB
