"""What a training shows: on a terminal one live line and a row for each validation, in a pipe plain lines."""

import time
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from regard.runs.card import duration
from regard.tasks.setup import Sample


@dataclass(frozen=True, kw_only=True)
class Now:
    """The figures of the live line."""

    step: int
    steps: int
    loss: float
    lr: float
    grad_norm: float
    tokens_per_second: float
    seconds_left: float | None  # None until some steps were measured

    def line(self) -> str:
        left = "measuring" if self.seconds_left is None else f"{duration(self.seconds_left)} left"
        return (
            f"step {self.step:,}/{self.steps:,}  loss {self.loss:.4f}  lr {self.lr:.2e}  "
            f"norm {self.grad_norm:.2f}  {self.tokens_per_second:,.0f} tokens/s  {left}"
        )


class Screen(Protocol):
    def say(self, text: str) -> None: ...

    def plan(self, rows: list[tuple[str, str]]) -> None:
        """What the training will do."""

    def step(self, now: Now) -> None: ...

    def validation(self, step: int, values: dict[str, float], is_best: bool, samples: list[Sample]) -> None: ...

    def close(self) -> None: ...


class PlainScreen:
    """Lines for a pipe or a log: a step's line at most every `seconds`."""

    def __init__(self, console: Console, seconds: float = 5.0) -> None:
        self.console = console
        self.seconds = seconds
        self.shown = float("-inf")

    def say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)

    def plan(self, rows: list[tuple[str, str]]) -> None:
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.console.print(Text.assemble((name.ljust(width), "bold"), f"  {value}"), soft_wrap=True)

    def step(self, now: Now) -> None:
        if now.step == now.steps or time.monotonic() - self.shown >= self.seconds:
            self.shown = time.monotonic()
            self.say(now.line())

    def validation(self, step: int, values: dict[str, float], is_best: bool, samples: list[Sample]) -> None:
        figures = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        self.console.print(
            Text.assemble(
                (f"validation at step {step:,}", "bold"), f"  {figures}", ("  best" if is_best else "", "green")
            ),
            soft_wrap=True,
        )
        for source, reference, output in samples:
            self.say(
                f"    {source}\n      → {output}" + ("" if reference in ("", output) else f"\n      ≠ {reference}")
            )

    def close(self) -> None:
        pass


class LiveScreen(PlainScreen):
    """The same rows on a terminal, and under them one line that is always the newest."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Live(console=console, refresh_per_second=8, transient=True)

    def step(self, now: Now) -> None:
        self.live.start()
        self.live.update(Text(now.line(), overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self.live.stop()


def open_screen(console: Console | None = None) -> Screen:
    console = console or Console()
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)
