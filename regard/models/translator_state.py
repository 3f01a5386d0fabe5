"""How translators begin to decode, and what they remember between two steps."""

from collections.abc import Sequence
from typing import Generic, Self

import torch
from torch import Tensor

from regard.nn.cache import Cache
from regard.nn.layout import Ragged, Rectangle
from regard.nn.state import S


def joined(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Ragged]:
    """The tokens (N) of all prompts, and how they lie."""
    tokens = torch.tensor([token for prompt in prompts for token in prompt], dtype=torch.long, device=device)
    return tokens, Ragged([len(prompt) for prompt in prompts], device)


class TranslatorState(Generic[S]):
    """What decoding has so far: each row's own past, and the memory of the source that `copies` rows share.

    The copies of a source begin alike, so one row may stand for all of them through the first step; then they part.
    """

    def __init__(self, own: S, source: Cache, copies: int):
        self.own = own
        self.source = source
        self.copies = copies

    @property
    def is_shared(self) -> bool:
        return self.own.n_rows < self.n_rows

    def are_alike(self, tokens: Tensor) -> bool:
        by_source = tokens.view(-1, self.copies, tokens.shape[1])
        return bool((by_source == by_source[:, :1]).all())

    def part(self) -> None:
        """Give each copy its own row."""
        if self.is_shared:
            rows = torch.arange(self.source.n_rows, device=self.source.lengths.device)
            self.own.select(rows.repeat_interleave(self.copies))

    @property
    def n_rows(self) -> int:
        return self.source.n_rows * self.copies

    @property
    def lengths(self) -> Tensor:
        return self.own.lengths.repeat_interleave(self.copies) if self.is_shared else self.own.lengths

    def across(self, n: int) -> Rectangle:
        """The rows of one source lie side by side: B sources, copies x n queries each."""
        n_queries = self.own.n_rows // self.source.n_rows * n
        return Rectangle(torch.full_like(self.source.lengths, n_queries), n_queries, is_full=True)

    def select(self, rows: Tensor) -> None:
        self.part()
        self.own.select(rows)
        self.source.select(rows[:: self.copies] // self.copies)

    def reorder(self, rows: Tensor) -> None:
        self.part()
        self.own.select(rows)

    def truncate(self, lengths: Tensor) -> None:
        self.part()
        self.own.truncate(lengths)

    def join(self, other: Self) -> None:
        assert self.copies == other.copies
        self.part()
        other.part()
        self.own.join(other.own)
        self.source.join(other.source)
