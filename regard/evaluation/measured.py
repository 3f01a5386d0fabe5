"""A figure, always with the settings it was measured with and its interval; what an evaluation gives: figures, what
they are of, and all that is shown or written besides."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

Z = 1.959963984540054  # 95 % of a normal distribution lie within ± Z
MOST = 700.0  # nats whose exponential is still a number
Table = tuple[str, list[tuple[str, ...]]]  # a title, the headings, and the rows


@dataclass(frozen=True, kw_only=True)
class Metric:
    name: str
    value: float
    signature: str  # all settings, as sacreBLEU writes them
    interval: tuple[float, float] | None = None  # holds the true value with 95 % confidence


def proportion(name: str, n_right: int, n: int, settings: str) -> Metric:
    """How many of n are right, in percent.

    The interval is Wilson's (1927): it needs no resampling, never leaves 0 … 100 and is right for few errors too.
    """
    signature = f"{settings}|interval:wilson 95%"
    return Metric(name=name, value=percent(n_right, n), signature=signature, interval=wilson(n_right, n))


def percent(part: int | np.integer, whole: int | np.integer) -> float:
    return 100 * int(part) / int(whole) if whole else 0.0


def wilson(n_right: int, n: int) -> tuple[float, float]:
    """(p + z²/2n ± z √(p (1 - p) / n + z²/4n²)) / (1 + z²/n), in percent."""
    p = n_right / n
    middle = p + Z**2 / (2 * n)
    half = Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    low, high = (100 * (middle + sign * half) / (1 + Z**2 / n) for sign in (-1, 1))
    return max(low, 0.0), min(high, 100.0)


def perplexities(nats: float, n_tokens: int, n_words: int, n_bytes: int) -> dict[str, float]:
    """Of a whole text with -log P = nats.  Only the last two can be compared between tokenizers.

    loss = nats / tokens; perplexity = e^loss; word perplexity = e^(nats / words); bits per byte = nats / (ln 2 · bytes)
    """
    return {
        "loss": nats / n_tokens,
        "perplexity": perplexity(nats / n_tokens),
        "word_perplexity": perplexity(nats / n_words),
        "bits_per_byte": nats / math.log(2) / n_bytes,
    }


def perplexity(loss: float) -> float:
    """e^loss, of nats a token"""
    return math.exp(min(loss, MOST))


class Measured(NamedTuple):
    """`record` is what --json says, beside the run; the screen shows `heading`, then the tables, then the footing."""

    of: str  # the test set, in words
    metrics: list[Metric]
    record: dict[str, object]
    tables: list[Table]
    heading: Sequence[str] = ()
    footing: Sequence[str] = ()
    outputs: Sequence[str] = ()  # one for each line of the test, where the task gives any
    remarks: Sequence[str] = ()  # on the test's files, to standard error
    draw: Callable[[Path], None] | None = None  # a picture
    is_compared: bool = False  # whether its outputs can be compared, line by line, with those of another run


class Versus(NamedTuple):
    """Two runs on one test."""

    record: dict[str, object]  # what --json says of both together
    records: Sequence[dict[str, object]]  # and of each by itself
    tables: list[Table]
    sides: Sequence[Measured] = ()  # the figures of each by itself, shown before
    footing: Sequence[str] = ()


def measured(of: str, metrics: list[Metric], remarks: Sequence[str]) -> Measured:
    """Figures and nothing else."""
    record: dict[str, object] = {"of": of, "metrics": [asdict(metric) for metric in metrics]}
    rows = [("what", "value", "95 % interval"), *(metric_row(metric, "{:.4g}") for metric in metrics)]
    return Measured(of, metrics, record, [("", rows)], footing=[metrics[0].signature], remarks=remarks)


def metric_row(metric: Metric, form: str, interval_form: str | None = None) -> tuple[str, ...]:
    between = (interval_form or form) + " to " + (interval_form or form)
    return metric.name, form.format(metric.value), "" if metric.interval is None else between.format(*metric.interval)


def count_notes(notes: Iterable[str], ends: tuple[str, ...]) -> dict[str, int]:
    """How often each note occurs; what follows one of `ends` differs from line to line and does not count."""
    end = "|".join(map(re.escape, ends))
    return dict(Counter(re.split(end, note)[0] for note in notes))
