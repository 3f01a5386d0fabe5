"""All that a search knows of a model, and what all searches share.

A row is one hypothesis.  With `copies` > 1 the rows of a prompt lie side by side: row g·copies + c is copy c
of prompt g.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.nn.layout import Prompt
from regard.nn.state import S

T = TypeVar("T", Tensor, np.ndarray)
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
    def is_capturable(self) -> bool:
        """Whether CUDA graphs can hold its steps (`regard.decoding.graphs`)."""
        ...

    def check_room(self, n_rows: int, room: int) -> None:
        """Raise where a search of so many rows, each of up to `room` tokens, takes more memory than there is."""
        ...

    def start(self, prompts: Prompts, copies: int = 1, room: int = 256) -> S:
        """A state with `copies` rows per prompt, which will be stepped by at most `room` tokens."""
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


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α, with the end counted in |Y|; score = log P(Y) / lp(Y).  Wu et al. 2016, eq. 14."""
    return ((5 + length) / 6) ** alpha


def grouped(costs: list[int], budget: int, lengths: list[int] | None = None) -> list[list[int]]:
    """Which prompts are decoded together: indices in groups with n · largest cost ≤ budget, similar costs together, the
    largest first; of equal costs, similar lengths.  What costs more than the budget alone is a group of its own.
    """
    lengths = costs if lengths is None else lengths
    groups: list[list[int]] = []
    for index in sorted(range(len(costs)), key=lambda i: (-costs[i], -lengths[i])):
        if groups and (len(groups[-1]) + 1) * costs[groups[-1][0]] <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


class Record:
    """What each step of a search chose, kept for the end: columns of shape (steps, prompts, width), one for each tensor
    that `add` is given, appended on the device and moved to the host in one go."""

    def __init__(self, n_prompts: int) -> None:
        self.n_prompts = n_prompts
        self.waiting: list[tuple[Tensor, ...]] = []
        self.blocks: list[tuple[np.ndarray, ...]] = []

    def add(self, *columns: Tensor) -> None:
        """The tensors (active prompts, width) of one step."""
        self.waiting.append(columns)

    def move(self, active: np.ndarray) -> None:
        """To the host, before the active prompts (indices) change."""
        if not self.waiting:
            return
        block = []
        for column in zip(*self.waiting, strict=True):
            part = torch.stack(column).cpu().numpy()
            whole = np.zeros((len(part), self.n_prompts, part.shape[2]), part.dtype)
            whole[:, active] = part
            block.append(whole)
        self.blocks.append(tuple(block))
        self.waiting.clear()

    def columns(self) -> list[np.ndarray]:
        return [np.concatenate(column) for column in zip(*self.blocks, strict=True)]
