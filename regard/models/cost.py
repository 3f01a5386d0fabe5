"""What a model costs, from first principles: a product of (a, b) and (b, c) takes 2abc operations."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Cost:
    forward: float  # FLOPs per token that is read or, of a translator, written, its share of the source included
    how: str
    is_sequential: bool = False  # one token after the other: a GPU waits, and its rate says little

    def plus(self, multiplications: float) -> Self:
        """With so many more for each token; a multiplication and an addition are two operations."""
        return replace(self, forward=self.forward + 2 * multiplications)


def translator_cost(multiplications: float, n_products: int, length: int, is_sequential: bool = False) -> Cost:
    """Per target token, for sentences of `length` tokens on both sides."""
    how = f"2 per weight and token, {n_products} products per key looked at; {length} source, {length} target tokens"
    return Cost(2 * multiplications, how, is_sequential)


def training_cost(cost: Cost, n_tokens: int) -> float:
    """Forward once, backward twice that, on every token."""
    return 3 * cost.forward * n_tokens


# What the paper says (Vaswani et al. 2017, table 2) and how its authors counted: time x GPUs x sustained rate.
PUBLISHED = {"transformer-base": (3.3e18, 12 / 24, 8), "transformer-big": (2.3e19, 3.5, 8)}
P100 = 9.5e12  # FLOP/s that the paper takes for a P100, single precision


def published(name: str) -> list[tuple[str, str, str]]:
    if name not in PUBLISHED:
        return []
    flops, days, n_gpus = PUBLISHED[name]
    counted = days * 86400 * n_gpus * P100
    how = f"{days:g} days × {n_gpus} P100 × 9.5 TFLOP/s: capacity, not work done"
    return [
        ("the paper says", f"{flops:.2g} FLOPs", "Vaswani et al. 2017, table 2"),
        ("as its authors counted", f"{counted:.2g} FLOPs", how),
    ]
