"""A batch: examples that go through the model together, as flat tensors and their layouts.

Those of about one length are read together; what was found of each goes back to its place."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.packing import cut
from regard.nn.layout import Ragged
from regard.processes import spread


@dataclass(frozen=True)
class TensorSet:
    """Tensors that belong together; a part of a batch."""

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{field.name: change(getattr(self, field.name)) for field in fields(self)})

    def rows(self, start: int, end: int) -> Self:
        """Those from `start` to `end` of every tensor."""
        return self.mapped(lambda tensor: tensor[start:end])

    def tensors(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True)
class Batch(ABC):
    lines: list[str]  # where each example came from, such as "train.en:123"

    is_fillable: ClassVar[bool] = False  # whether `filled` gives batches of few shapes, which can be recorded

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """How many predictions the loss is a sum of."""

    @property
    @abstractmethod
    def n_tokens(self) -> int:
        """How many tokens the model reads, for the rate."""

    def filled(self) -> Self:
        """The same to learn from, in one of few shapes where `is_fillable`."""
        return self

    def halves(self) -> list[Self]:
        """Two batches whose losses add up to the loss of this one; []: it cannot be divided."""
        return []

    def to(self, device: torch.device) -> Self:
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True), lambda layout: layout.to(device))

    def mapped(self, tensors: Callable[[Tensor], Tensor], layouts: Callable[[Ragged], Ragged]) -> Self:
        """The same batch with other copies of its tensors and layouts, also of a batch within it."""
        changed: dict[str, Any] = {}  # each of the type of its field
        for name, part in self.parts().items():
            if isinstance(part, Tensor):
                changed[name] = tensors(part)
            elif isinstance(part, Ragged):
                changed[name] = layouts(part)
            elif isinstance(part, TensorSet):
                changed[name] = part.mapped(tensors)
            elif isinstance(part, Batch):
                changed[name] = part.mapped(tensors, layouts)
        return replace(self, **changed)

    def parts(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class SequenceBatch(Batch):
    """What a model of one sequence reads: flat rows of tokens."""

    tokens: Tensor  # N
    layout: Ragged

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


def middle(*layouts: Ragged) -> list[tuple[int, int]]:
    """The sequences of two halves, first and last, with about as many rows each; []: there is one sequence alone."""
    n = layouts[0].n_sequences
    ends = sum((layout.offsets.long().cpu() for layout in layouts), torch.zeros(n + 1, dtype=torch.long))
    if n < 2 or not ends[-1]:
        return []
    cut_at = 1 + int((ends[1:-1] - ends[-1] / 2).abs().argmin())
    return [(0, cut_at), (cut_at, n)]


def n_within(part: slice, n_rows: int, n_added: int) -> int:
    """How many of the added rows, which are the last of all, are in a part."""
    return max(0, part.stop - max(part.start, n_rows - n_added))


def flat(documents: Sequence[np.ndarray]) -> tuple[Tensor, Ragged]:
    """All tokens one after the other, and where each document lies."""
    tokens = np.concatenate([np.empty(0, np.int64), *documents])
    return torch.from_numpy(tokens.astype(np.int64)), Ragged([len(document) for document in documents])


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """All examples, sorted by length, in groups of at most `budget` tokens."""
    return cut(np.argsort(lengths, kind="stable"), lengths, budget)


def read_together(
    documents: Sequence[np.ndarray], budget: int, device: torch.device
) -> Iterator[tuple[np.ndarray, Tensor, Ragged]]:
    """Groups of documents of about one length: which they are, their tokens and their layout."""
    for group in by_length(np.array([len(document) for document in documents], np.int64), budget):
        tokens, layout = flat([documents[i] for i in group])
        yield group, tokens.to(device), layout.to(device)


@torch.no_grad()
def read_each(
    model: Callable[[Tensor, Ragged], Tensor], documents: Sequence[np.ndarray], budget: int, device: torch.device
) -> Tensor:
    """What a model makes of each document, on the host (documents, ...)."""

    def rows(group: np.ndarray) -> Tensor:
        tokens, layout = flat([documents[i] for i in group])
        return model(tokens.to(device), layout.to(device)).float()

    groups = by_length(np.array([len(document) for document in documents], np.int64), budget)
    return put_back(spread(groups, rows), groups)


def put_back(rows: Sequence[Tensor], groups: Sequence[np.ndarray]) -> Tensor:
    """The rows of each group, as the rows of all examples in their own order."""
    if not groups:
        return torch.empty(0, 0)
    return torch.cat(list(rows))[np.argsort(np.concatenate(groups))]
