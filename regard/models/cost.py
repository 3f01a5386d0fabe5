"""What a pass through a model costs."""

from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class Cost:
    """From first principles: a product of (a, b) and (b, c) takes 2abc operations."""

    forward: float  # FLOPs per token that is read or, of a translator, written, its share of the source included
    how: str
    is_sequential: bool = False  # one token after the other: a GPU waits, and its rate says little

    def plus(self, multiplications: float) -> Self:
        """With so many more for each token; a multiplication and an addition are two operations."""
        return replace(self, forward=self.forward + 2 * multiplications)


def translator_cost(
    multiplications: float, n_products: int, n_source: int, length: int, is_sequential: bool = False
) -> Cost:
    """Per target token, for sources of `n_source` rows and targets of `length` tokens."""
    how = f"2 per weight and token, {n_products} products per key looked at; {n_source} source, {length} target tokens"
    return Cost(2 * multiplications, how, is_sequential)
