"""How one of their tensors becomes ours, and back.  Each form is read both ways, so import and export share a table.

The forms only move numbers or scale them; they also work on the meta device, where tensors have shapes and no memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class Form(ABC):
    @abstractmethod
    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """One tensor of theirs as one of ours, or as several."""

    @abstractmethod
    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        """What `ours` was made of."""


class AsIs(Form):
    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor,)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0]


class Turned(Form):
    """Inputs by outputs, where ours are outputs by inputs (the Conv1D of GPT-2)."""

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor.T,)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].T


@dataclass(frozen=True)
class Stacked(Form):
    """Several of ours are one of theirs: queries, keys and values, side by side along one dimension."""

    sizes: tuple[int, ...]
    turned: bool = False

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return tuple((tensor.T if self.turned else tensor).split(self.sizes))

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        whole = torch.cat(list(tensors))
        return whole.T if self.turned else whole


@dataclass(frozen=True)
class RotaryPairs(Form):
    """Rotary positions turn channels i and i + E/2 of a head together in theirs, channels 2i and 2i + 1 in ours.

    The rows of the products that make queries and keys, their biases and the norms of a head are put in our order.
    """

    d_head: int

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        halves = tensor.unflatten(0, (-1, 2, self.d_head // 2))  # heads, half, pair
        return (halves.transpose(1, 2).flatten(0, 2),)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        pairs = tensors[0].unflatten(0, (-1, self.d_head // 2, 2))  # heads, pair, half
        return pairs.transpose(1, 2).flatten(0, 2)


@dataclass(frozen=True)
class AfterRows(Form):
    """Their table begins with rows that no token uses: the first places of RoBERTa and BART are kept for padding."""

    n: int

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor[self.n :],)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        table = tensors[0]
        return torch.cat([table.new_zeros(self.n, *table.shape[1:]), table])


@dataclass(frozen=True)
class Scaled(Form):
    """Ours are theirs times a number (T5 scales its last rows, we the norm that makes them)."""

    factor: float

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor * self.factor,)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0] / self.factor


@dataclass(frozen=True)
class FirstRows(Form):
    """Of their table only the first rows are ever used (the segments of RoBERTa)."""

    n: int

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor[: self.n],)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0]


@dataclass(frozen=True)
class Zeros(Form):
    """What they add and we do not: it is written as zeros, and not read."""

    shape: tuple[int, ...]

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return ()

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return torch.zeros(self.shape)


@dataclass(frozen=True)
class EvenThenOdd(Form):
    """Along one dimension, channels 0 2 4 .. and then 1 3 5 .. in theirs, as they count in ours."""

    dim: int

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor.index_select(self.dim, self.order(tensor).argsort()),)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].index_select(self.dim, self.order(tensors[0]))

    def order(self, tensor: Tensor) -> Tensor:
        places = torch.arange(tensor.shape[self.dim], device=tensor.device)
        return torch.cat([places[0::2], places[1::2]])


@dataclass(frozen=True)
class Shaped(Form):
    """The same numbers in another shape."""

    as_theirs: tuple[int, ...]
    as_ours: tuple[int, ...]

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor.reshape(self.as_ours),)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].reshape(self.as_theirs)


@dataclass(frozen=True)
class ToHeads(Form):
    """Inputs by heads by channels of a head (XLNet), where ours are outputs by inputs."""

    heads: tuple[int, int]

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor.flatten(1).T,)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].T.unflatten(1, self.heads)


@dataclass(frozen=True)
class FromHeads(Form):
    """Outputs by heads by channels of a head: the way back."""

    heads: tuple[int, int]

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (tensor.flatten(1),)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].unflatten(1, self.heads)


@dataclass(frozen=True)
class OneMore(Form):
    """Ours have one row more, in which all numbers are this one."""

    value: float

    def ours(self, tensor: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([tensor, torch.full_like(tensor[:1], self.value)]),)

    def theirs(self, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0][:-1]


AS_IS = AsIs()
TURNED = Turned()
