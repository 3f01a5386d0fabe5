"""All that a search knows of a model, and all that a caller gets back.

A row is one hypothesis.  With `copies` > 1 the rows of a prompt lie side by side: row g·copies + c is copy c
of prompt g.
"""

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """What a model remembers of its rows between two steps."""

    @property
    def n_rows(self) -> int: ...

    @property
    def lengths(self) -> Tensor:
        """Tokens stepped so far, for each row: (rows,), on the model's device."""
        ...

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; rows may repeat or vanish.  In place.

        Each group of `copies` rows of the result comes from one prompt, so a memory kept once per prompt
        can stay so.
        """
        ...

    def reorder(self, rows: Tensor) -> None:
        """`select` for as many rows, each from its own prompt, as in a beam's step: prompts stay where they are."""
        ...

    def truncate(self, lengths: Tensor) -> None:
        """Forget all but the first lengths[i] tokens of row i.  In place."""
        ...

    def join(self, other: Self) -> None:
        """Append the rows of another state of the same model.  In place."""
        ...


S = TypeVar("S", bound=State)


class Generator(Protocol[S]):
    """A model that continues token sequences."""

    def start(self, prompts: list[list[int]], copies: int = 1, room: int = 256) -> S:
        """A state with `copies` rows per prompt, which will be stepped by at most `room` tokens."""
        ...

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """tokens (rows, n) → logits (rows, n, V) for the token after each.  The state advances in place.

        The logits are the caller's until the next step: a model may write them into the same memory again.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    tokens: list[int]  # without start and end
    log_prob: float  # of the tokens and, when finished, of the end
    score: float  # log_prob / length penalty: what hypotheses are ranked by
    finished: bool  # False: the length limit came before the end
    near_ties: int = 0  # steps at which two choices differed by less than 1e-5, so rounding may have decided
