"""How one of their tensors becomes ours, and back.  Each form is read both ways, so import and export share a table.

The forms only move numbers or scale them; they also work on the meta device, where tensors have shapes and no memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Form:
    """`ours` makes one tensor of ours, or several, of one of theirs; `theirs` is the way back."""

    ours: Callable[[Tensor], tuple[Tensor, ...]]
    theirs: Callable[[Sequence[Tensor]], Tensor]


def one_to_one(ours: Callable[[Tensor], Tensor], theirs: Callable[[Tensor], Tensor]) -> Form:
    return Form(lambda tensor: (ours(tensor),), lambda tensors: theirs(tensors[0]))


AS_IS = one_to_one(lambda tensor: tensor, lambda tensor: tensor)
# Inputs by outputs, where ours are outputs by inputs (the Conv1D of GPT-2).
TURNED = one_to_one(lambda tensor: tensor.T, lambda tensor: tensor.T)


def stacked(sizes: tuple[int, ...], is_turned: bool = False) -> Form:
    """Several of ours are one of theirs: queries, keys and values, side by side along one dimension."""
    if is_turned:
        return Form(lambda tensor: tensor.T.split(sizes), lambda tensors: torch.cat(list(tensors)).T)
    return Form(lambda tensor: tensor.split(sizes), lambda tensors: torch.cat(list(tensors)))


def rotary_pairs(d_head: int) -> Form:
    """Rotary positions turn channels i and i + E/2 of a head together in theirs, channels 2i and 2i + 1 in ours.

    The rows of the products that make queries and keys, their biases and the norms of a head are put in our order.
    """
    as_halves, as_pairs = (-1, 2, d_head // 2), (-1, d_head // 2, 2)  # heads and: half, pair; pair, half
    return one_to_one(
        lambda tensor: tensor.unflatten(0, as_halves).transpose(1, 2).flatten(0, 2),
        lambda tensor: tensor.unflatten(0, as_pairs).transpose(1, 2).flatten(0, 2),
    )


def after_rows(n: int) -> Form:
    """Their table begins with rows that no token uses: the first places of RoBERTa and BART are kept for padding."""
    return one_to_one(lambda table: table[n:], lambda table: torch.cat([table.new_zeros(n, *table.shape[1:]), table]))


def without_first(shape: tuple[int, int]) -> Form:
    """Our table begins with a row that no patch uses, that of the class row; theirs has none (timm)."""
    whole = shaped((1, *shape), shape)
    return one_to_one(
        lambda table: F.pad(whole.ours(table)[0], (0, 0, 1, 0)),
        lambda table: whole.theirs([table[1:]]),
    )


def first_rows(n: int) -> Form:
    """Of their table only the first rows are ever used (the segments of RoBERTa)."""
    return one_to_one(lambda table: table[:n], lambda table: table)


def scaled(factor: float) -> Form:
    """Ours are theirs times a number (T5 scales its last rows, we the norm that makes them)."""
    return one_to_one(lambda tensor: tensor * factor, lambda tensor: tensor / factor)


def zeros(shape: tuple[int, ...]) -> Form:
    """What they add and we do not: it is written as zeros, and not read."""
    return Form(lambda tensor: (), lambda tensors: torch.zeros(shape))


def even_then_odd(dim: int) -> Form:
    """Along one dimension, channels 0 2 4 .. and then 1 3 5 .. in theirs, as they count in ours."""

    def order(tensor: Tensor) -> Tensor:
        places = torch.arange(tensor.shape[dim], device=tensor.device)
        return torch.cat([places[0::2], places[1::2]])

    return one_to_one(
        lambda tensor: tensor.index_select(dim, order(tensor).argsort()),
        lambda tensor: tensor.index_select(dim, order(tensor)),
    )


def shaped(as_theirs: tuple[int, ...], as_ours: tuple[int, ...]) -> Form:
    """The same numbers in another shape."""

    def ours(tensor: Tensor) -> Tensor:
        if tuple(tensor.shape) != as_theirs:  # as many numbers could lie otherwise
            raise RuntimeError(f"{tuple(tensor.shape)} is not {as_theirs}")
        return tensor.reshape(as_ours)

    return one_to_one(ours, lambda tensor: tensor.reshape(as_theirs))


def to_heads(heads: tuple[int, int]) -> Form:
    """Inputs by heads by channels of a head (XLNet), where ours are outputs by inputs."""
    return one_to_one(lambda tensor: tensor.flatten(1).T, lambda tensor: tensor.T.unflatten(1, heads))


def from_heads(heads: tuple[int, int]) -> Form:
    """Outputs by heads by channels of a head: the way back."""
    return one_to_one(lambda tensor: tensor.flatten(1), lambda tensor: tensor.unflatten(1, heads))
