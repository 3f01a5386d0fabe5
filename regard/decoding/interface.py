"""All that a search knows of a model, and what all searches share.

A row is one hypothesis.  With `copies` > 1 the rows of a prompt lie side by side: row g·copies + c is copy c
of prompt g.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.nn.layout import Prompt
from regard.nn.state import S

T = TypeVar("T", Tensor, np.ndarray)
L = TypeVar("L", float, Tensor)
Ids = list[list[int]]  # of the tokens of several texts
Prompts = Sequence[Prompt]  # what a model reads, each before its own text
Progress = Callable[[int, int], None]  # of how many are done, and of how many there are

NEAR = 1e-5  # choices closer than this may be decided by rounding, hence by the batch they are computed in


class Generator(Protocol[S]):
    """A model that continues token sequences."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence that it takes."""
        ...

    @property
    def device(self) -> torch.device: ...

    def halved(self) -> Self:
        """A copy whose weights are in bfloat16."""
        ...

    @property
    def is_capturable(self) -> bool:
        """Whether CUDA graphs can hold its steps (`regard.decoding.pool`)."""
        ...

    def check_room(self, n_rows: int, room: int) -> None:
        """Raise where a search of so many rows, each of up to `room` tokens, takes more memory than there is."""
        ...

    @property
    def reads_on(self) -> bool:
        """Whether a prompt can be read in pieces: `start` reads the first, and steps read the others."""
        ...

    def start(self, prompts: Prompts, begin: int, copies: int = 1, room: int = 256) -> tuple[S, Tensor]:
        """A state with `copies` rows per prompt and room to write `room` tokens in each, and the logits (prompts, V) of
        the first of them.  A translator writes after the token `begin`; a text goes on from its prompt, and only an
        empty one begins with that token."""
        ...

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """tokens (rows, n) → logits (rows, n, V) for the token after each.  The state advances in place.

        The logits are the caller's until the next step: a model may write them into the same memory again.
        """
        ...


AnyGenerator = Generator[Any]  # whatever its state


def is_one_of(tokens: T, ends: Sequence[int]) -> T:
    """Which of the tokens are among these few, a bool for each."""
    return reduce(or_, (tokens == end for end in ends))


def length_penalty(length: L, alpha: float) -> L:
    """lp(Y) = ((5 + |Y|) / 6)^α, with the end counted in |Y|; score = log P(Y) / lp(Y).  Wu et al. 2016, eq. 14."""
    return ((5 + length) / 6) ** alpha
