"""What a training shows: on a terminal a live bar and a row for each validation, in a pipe plain lines."""

import math
import time
from collections.abc import Callable
from itertools import pairwise

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from regard.learning.config import TrainingConfig
from regard.runs.card import duration
from regard.tasks.setup import Sample
from regard.training.estimate import expected_seconds
from regard.training.unread import StepRecord

MEASURED = 5  # steps before an estimate is given
BLOCKS = "▁▂▃▄▅▆▇█"
MOST_LOSSES = 4096  # of a long training: neighbors are put together
N_BLOCKS, BAR_WIDTH = 16, 20  # of the live line: losses side by side, and columns of the bar


class Pace:
    """How fast a training goes and when it will end."""

    def __init__(self, config: TrainingConfig, done: int, guess: Callable[[float], float]) -> None:
        self.config, self.done = config, done  # steps
        self.guess = guess  # from the seconds of a step to those of a validation, before there was one
        self.n_measured, self.seconds = 0, 0.0  # steps, and what they took
        self.validations: list[float] = []  # seconds of each
        self.before: float | None = None  # the first steps compile and warm up, and so do not count
        self.window_began = time.monotonic()
        self.window_tokens = 0

    def note(self, n_steps: int, n_tokens: int) -> None:
        """Steps that the device has finished."""
        now = time.monotonic()
        self.done += n_steps
        self.window_tokens += n_tokens
        if self.before is not None:
            self.n_measured += n_steps
            self.seconds += now - self.before
        self.before = now

    def note_validation(self, seconds: float) -> None:
        self.validations.append(seconds)
        if self.before is not None:
            self.before += seconds

    def tokens_per_second(self) -> float:
        """Since the last call."""
        now = time.monotonic()
        rate = self.window_tokens / max(now - self.window_began, 1e-9)
        self.window_began, self.window_tokens = now, 0
        return rate

    def seconds_left(self) -> float | None:
        if self.n_measured < MEASURED:
            return None
        step = self.seconds / self.n_measured
        known = self.validations
        return expected_seconds(
            self.config, step, sum(known) / len(known) if known else self.guess(step), min(self.done, self.config.steps)
        )


def step_line(row: StepRecord, steps: int, tokens_per_second: float, seconds_left: float | None) -> str:
    """The figures of a step; `seconds_left` is None until some steps were measured."""
    left = "measuring" if seconds_left is None else f"{duration(seconds_left)} left"
    return (
        f"step {row.step:,}/{steps:,}  loss {row.loss:.4f}  lr {row.lr:.2e}  "
        f"norm {row.grad_norm:.2f}  {tokens_per_second:,.0f} tokens/s  {left}"
    )


def sparkline(values: list[float], n_blocks: int = N_BLOCKS) -> str:
    """The course of the values, each block the mean of an equal part of them, from their lowest to their highest."""
    finite = [value for value in values if math.isfinite(value)]
    n_blocks = min(n_blocks, len(finite))
    bounds = [round(i * len(finite) / n_blocks) for i in range(n_blocks + 1)] if n_blocks else [0]
    means = [sum(finite[a:b]) / (b - a) for a, b in pairwise(bounds)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    span = (high - low) or 1.0
    return "".join(BLOCKS[round((len(BLOCKS) - 1) * (mean - low) / span)] for mean in means)


class Screen:
    """Lines for a pipe or a log: a step's line at most every `seconds`."""

    def __init__(self, console: Console, seconds: float = 5.0) -> None:
        self.console = console
        self.seconds = seconds
        self.shown = float("-inf")

    def say(self, *parts: str | tuple[str, str]) -> None:
        """Texts, some with a style."""
        self.console.print(Text.assemble(*parts), soft_wrap=True)

    def plan(self, rows: list[tuple[str, str]]) -> None:
        """What the training will do."""
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.say((name.ljust(width), "bold"), f"  {value}")

    def begin(self, step: int, steps: int, waiting: str) -> None:
        """Before the first step, and what it waits for, which may take a minute."""
        if waiting:
            self.say(waiting)

    def advance(self, row: StepRecord) -> None:
        """A step whose figures are known, whether or not its line is shown."""

    def step(self, line: str, is_last: bool) -> None:
        if is_last or time.monotonic() - self.shown >= self.seconds:
            self.shown = time.monotonic()
            self.say(line)

    def validation(self, step: int, values: dict[str, float], is_best: bool, samples: list[Sample]) -> None:
        figures = "  ".join(f"{name} {value:<7.4g}" for name, value in values.items())  # in columns
        self.say((f"validation at step {step:,}", "bold"), f"  {figures}", ("  best" if is_best else "", "green"))
        for source, reference, output in samples:
            self.say(
                f"    {source}\n      → {output}" + ("" if reference in ("", output) else f"\n      ≠ {reference}")
            )

    def close(self) -> None:
        pass


class LiveScreen(Screen):
    """The same rows on a terminal, and under them, from the first step, a bar, the course of the loss, the figures of
    the last validation, and the newest line."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.live = Live(console=console, refresh_per_second=8, transient=True)
        self.done, self.steps = 0, 1
        self.losses: list[float] = []
        self.line, self.validated = "", ""
        self.waits = False  # for the first step: the bar moves to and fro

    def begin(self, step: int, steps: int, waiting: str) -> None:
        self.done, self.steps = step, steps
        self.line, self.waits = waiting or "the first step …", True
        self.live.start()
        self.refresh()

    def advance(self, row: StepRecord) -> None:
        if self.waits:
            self.line, self.waits = "", False
        self.done = row.step
        self.losses.append(row.loss)
        if len(self.losses) > MOST_LOSSES:
            self.losses = [sum(pair) / 2 for pair in zip(self.losses[::2], self.losses[1::2], strict=False)]
        if time.monotonic() - self.shown >= 1 / self.live.refresh_per_second:
            self.shown = time.monotonic()
            self.refresh()

    def step(self, line: str, is_last: bool) -> None:
        self.live.start()
        self.line = line
        self.refresh()

    def validation(self, step: int, values: dict[str, float], is_best: bool, samples: list[Sample]) -> None:
        super().validation(step, values, is_best, samples)
        self.validated = "  ".join(f"{name} {value:.4g}" for name, value in values.items())

    def refresh(self) -> None:
        rows = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=max(self.steps, 1), completed=self.done, width=BAR_WIDTH, pulse=self.waits)
        share = f"{min(self.done / max(self.steps, 1), 1):.0%}"
        rows.add_row(bar, share, Text(sparkline(self.losses), "cyan"), Text(self.validated, "green", no_wrap=True))
        self.live.update(Group(rows, Text(self.line, overflow="ellipsis", no_wrap=True)))

    def close(self) -> None:
        self.live.stop()


def open_screen(console: Console | None = None, is_silent: bool = False) -> Screen:
    console = console or Console(quiet=is_silent)
    return LiveScreen(console) if console.is_terminal else Screen(console)
