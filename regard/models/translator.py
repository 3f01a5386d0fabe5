"""What models that read a source and write a target have in common: how they are called, and the state of decoding."""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from regard.nn.cache import Cache
from regard.nn.layout import Layout, Rectangle


class Translator(Protocol):
    config: Any
    embedding: nn.Embedding

    def __call__(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        """Token ids (N) of both sides -> the hidden state behind each next target token (N, D)."""
        ...

    @property
    def output_table(self) -> Tensor:
        """(V, D): P(next token) = softmax(table h + bias)."""
        ...

    @property
    def output_bias(self) -> Tensor | None: ...

    def start(self, prompts: Sequence[Sequence[int]], copies: int = 1, room: int | None = None) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> Tensor: ...


class TargetPast(Protocol):
    """What the rows of a decoder remember of their own targets."""

    lengths: Tensor

    @property
    def n_rows(self) -> int: ...

    def select(self, rows: Tensor) -> None: ...

    def truncate(self, lengths: Tensor) -> None: ...

    def join(self, other: Self) -> None: ...


P = TypeVar("P", bound=TargetPast)


class TranslatorState(Generic[P]):
    """What decoding has so far: each row's own past, and the memory of the source that `copies` rows share.

    The copies of a source begin alike, so one row may stand for all of them through the first step; then they part.
    """

    def __init__(self, own: P, source: Cache, copies: int):
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
