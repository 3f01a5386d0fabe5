"""What a model remembers of its rows between two steps of decoding."""

from abc import ABC, abstractmethod
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from regard.nn.layout import Rectangle


class State(Protocol):
    """A row is one text that is being written.  All changes are made in place."""

    @property
    def n_rows(self) -> int: ...

    @property
    def lengths(self) -> Tensor:
        """Tokens stepped so far, for each row: (rows,), on the model's device."""
        ...

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; rows may repeat or vanish.

        Each group of `copies` rows of the result comes from one prompt, so a memory kept once per prompt can stay so.
        """
        ...

    def reorder(self, rows: Tensor) -> None:
        """`select` for as many rows, each from its own prompt, as in a beam's step: prompts stay where they are."""
        ...

    def truncate(self, lengths: Tensor) -> None:
        """Forget all but the first lengths[i] tokens of row i."""
        ...

    def join(self, other: Self) -> None:
        """Append the rows of another state of the same model."""
        ...


class PooledState(State, Protocol):
    """A state whose tensors stay in place, so that a CUDA graph can step it.  Rows come into it and leave it."""

    @property
    def rooms(self) -> tuple[int, ...]:
        """Of each thing that it keeps and that grows with a text, how much there is room for."""
        ...

    def pooled(self, n_rows: int, rooms: tuple[int, ...]) -> Self:
        """A state of the same model for so many rows, none of which is used yet, with at least these rooms."""
        ...

    def put(self, rows: Tensor, other: Self) -> None:
        """These rows become those of another state."""
        ...

    def taken(self, rows: Tensor) -> Self:
        """A copy of these rows."""
        ...

    def changing(self) -> list[Tensor]:
        """What a step changes, but for keys and values that are written after those that are there."""
        ...


class CarriedState(State, Protocol):
    """A state in which the next window of a text begins, so that a checkpoint holds it."""

    def tensors(self) -> dict[str, Tensor]: ...


S = TypeVar("S", bound=State)
PS = TypeVar("PS", bound=PooledState)


class RowState(ABC):
    """A state whose own tensors have an entry for each row."""

    lengths: Tensor

    @property
    def n_rows(self) -> int:
        return len(self.lengths)

    def queries(self, n: int) -> Rectangle:
        """How the next `n` tokens of every row lie: after those that it has."""
        return Rectangle(torch.full_like(self.lengths, n), n, is_full=True, starts=self.lengths)

    @abstractmethod
    def select(self, rows: Tensor) -> None: ...

    def reorder(self, rows: Tensor) -> None:
        self.select(rows)


class JointState:
    """Several states of the same rows as one, such as those of an ensemble's models."""

    def __init__(self, *parts: State):
        self.parts = parts

    @property
    def n_rows(self) -> int:
        return self.parts[0].n_rows

    @property
    def lengths(self) -> Tensor:
        return self.parts[0].lengths

    def select(self, rows: Tensor) -> None:
        for part in self.parts:
            part.select(rows)

    def reorder(self, rows: Tensor) -> None:
        for part in self.parts:
            part.reorder(rows)

    def truncate(self, lengths: Tensor) -> None:
        for part in self.parts:
            part.truncate(lengths)

    def join(self, other: Self) -> None:
        for part, others in zip(self.parts, other.parts, strict=True):
            part.join(others)
