"""Time contenders in turns."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch


@dataclass
class Seconds:
    """What each round took."""

    rounds: list[float] = field(default_factory=list)

    def rates(self, work: float) -> "Figures":
        """Work done per second, for each round."""
        return Figures([work / seconds for seconds in self.rounds])

    def milliseconds(self) -> "Figures":
        return Figures([1000 * seconds for seconds in self.rounds])


@dataclass(frozen=True)
class Figures:
    """One figure a round.  The spread is half of what lies between the extremes, as a share of the median."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        return (max(self.values) - min(self.values)) / 2 / self.median


def take_turns(contenders: Mapping[str, Callable[[], object]], rounds: int, device: torch.device) -> dict[str, Seconds]:
    """Run each once a round; the clock waits for the device.  Warm them up first."""
    taken = {name: Seconds() for name in contenders}
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}: {', '.join(contenders)}")
        for name, run in contenders.items():
            wait(device)
            begin = time.perf_counter()
            run()
            wait(device)
            taken[name].rounds.append(time.perf_counter() - begin)
    return taken


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def say(what: str) -> None:
    """Tell on standard error what is being measured: the figures come when a bench is done, which may take minutes."""
    print(what, file=sys.stderr, flush=True)
