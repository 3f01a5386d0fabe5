"""A batch moves to a device whole: its tensors, its layouts, and a batch within it; the rest stays."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.nn.layout import Ragged

META = torch.device("meta")


@dataclass(frozen=True)
class Rows(Batch):
    tokens: Tensor
    layout: Ragged
    follows: Tensor | None = None
    begins: bool = True

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


@dataclass(frozen=True)
class Both(Rows):
    inner: Rows | None = None


def test_all_parts_move_and_the_rest_stays() -> None:
    inner = Rows(["a.txt:1"], torch.arange(3), Ragged([3]), begins=False)
    batch = Both(["a.txt:1"], torch.arange(4), Ragged([1, 3]), inner=inner)
    moved = batch.to(META)
    assert isinstance(moved, Both) and moved.inner is not None
    assert {moved.tokens.device, moved.layout.lengths.device, moved.inner.tokens.device} == {META}
    assert moved.inner.layout.offsets.device == META and not moved.inner.begins
    assert (moved.lines, moved.follows, moved.n_tokens, moved.n_targets) == (["a.txt:1"], None, 4, 2)
    assert batch.tokens.device.type == "cpu", "the batch itself is not changed"


def test_a_batch_that_cannot_be_filled_stays_as_it_is() -> None:
    batch = Rows(["a.txt:1"], torch.arange(3), Ragged([3]))
    assert batch.filled() is batch and not batch.is_fillable
