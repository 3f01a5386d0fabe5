"""Examples of about one length are read together; what was found of each goes back to its place."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.packing import cut


def by_length(lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """All examples, sorted by length, in groups of at most `budget` tokens."""
    return cut(np.argsort(lengths, kind="stable"), lengths, budget)


def put_back(found: Sequence[Tensor], groups: Sequence[np.ndarray]) -> Tensor:
    """The rows found for each group, as the rows of all examples in their own order."""
    if not groups:
        return torch.empty(0, 0)
    return torch.cat(list(found))[np.argsort(np.concatenate(groups))]
