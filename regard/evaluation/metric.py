"""A figure, always with the settings it was measured with and its interval; shares, and perplexities of a text."""

import math
from dataclasses import dataclass

import numpy as np

Z = 1.959963984540054  # 95 % of a normal distribution lie within ± Z
MOST = 700.0  # nats whose exponential is still a number


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
