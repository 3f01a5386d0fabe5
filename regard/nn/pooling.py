"""One vector for each sequence, of the rows that a model made of it.  An empty sequence gets zeros."""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.choose import choose
from regard.nn.layout import Gather, Layout
from regard.nn.recurrent import reverse


def last(padded: Tensor, lengths: Tensor) -> Tensor:
    """h_T: what a model that reads from left to right knows at the end."""
    rows = torch.arange(len(padded), device=padded.device) * padded.shape[1]
    return Gather.apply(padded.flatten(0, 1), rows + (lengths - 1).clamp(min=0))


def first(padded: Tensor, lengths: Tensor) -> Tensor:
    """h_1: of BERT the row of <s>, which stands for the whole text  (Devlin et al. 2019)"""
    return padded[:, 0]


def mean(padded: Tensor, lengths: Tensor) -> Tensor:
    """1/T Σ_t h_t"""
    return padded.sum(1) / lengths.clamp(min=1)[:, None]


def maximum(padded: Tensor, lengths: Tensor) -> Tensor:
    """max_t h_t, channel by channel  (Collobert et al. 2011)"""
    return torch.where(present(padded, lengths), padded, -torch.inf).amax(1)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"last": last, "mean": mean, "max": maximum, "first": first}


def summary(hidden: Tensor, layout: Layout, how: str, bidirectional: bool = False) -> Tensor:
    """Rows (N, D) -> one of `POOLINGS` for each sequence (B, D).

    The second half of a bidirectional net's rows was read from right to left, so its last state is at the first token.
    """
    pool = choose(POOLINGS, how, "summary")
    if layout.longest == 0:
        return hidden.new_zeros(layout.n_sequences, hidden.shape[-1])
    padded = layout.pad(hidden)
    if bidirectional and how == "last":
        ahead, back = padded.chunk(2, dim=-1)
        padded = torch.cat([ahead, reverse(back, layout)], dim=-1)
    padded = torch.where(present(padded, layout.lengths), padded, 0)  # a rectangle's padding may hold anything
    return torch.where(layout.lengths[:, None] > 0, pool(padded, layout.lengths), 0)


def present(padded: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, 1), True where there is a token."""
    return (torch.arange(padded.shape[1], device=padded.device) < lengths[:, None])[..., None]
