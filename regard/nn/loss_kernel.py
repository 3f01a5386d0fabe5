"""The loss of a chunk of logits and its gradient on a GPU, in one kernel of Triton: logits are read from memory once,
and the gradient is written over them.  `loss_and_gradient` in `loss.py` is the same, readable.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # columns at a time


def loss_and_gradient_by_rows(logits: Tensor, labels: Tensor, smoothing: float, n_words: int) -> tuple[Tensor, Tensor]:
    """Logits (rows, columns), of which the first `n_words` are words; they become their gradient."""
    losses = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    by_row[(len(logits),)](logits, labels, losses, logits.shape[1], n_words, smoothing, BLOCK=BLOCK, num_warps=8)
    return losses.sum(), logits


@triton.jit
def by_row(logits, labels, losses, n_columns, n_words, smoothing, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """loss = log sum_v e^z_v - (1 - e) z_label - e/V sum_v z_v;  gradient = softmax(z) - e/V - (1 - e) [v = label]

    Both are 0 where the label is negative: such a row does not count.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * n_columns
    highest = -float("inf")
    size = 0.0  # sum_v e^(z_v - highest), of what was read so far
    total = 0.0
    for begin in range(0, n_words, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        z = tl.load(logits + columns, columns < n_words, -float("inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(z, 0))
        size = size * tl.exp(highest - higher) + tl.sum(tl.exp(z - higher), 0)
        highest = higher
        total += tl.sum(tl.where(columns < n_words, z, 0.0), 0)
    normalizer = highest + tl.log(size)
    label = tl.load(labels + row)
    counts = label >= 0
    share = smoothing / n_words
    own = tl.load(logits + label, counts, 0.0).to(tl.float32)
    tl.store(losses + row, tl.where(counts, normalizer - (1 - smoothing) * own - share * total, 0.0))
    tl.debug_barrier()  # all have read the label's logit before one of them overwrites it
    for begin in range(0, n_columns, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        z = tl.load(logits + columns, columns < n_words, -float("inf")).to(tl.float32)
        gradient = tl.exp(z - normalizer) - share - tl.where(columns == label, 1 - smoothing, 0.0)
        tl.store(logits + columns, tl.where((columns < n_words) & counts, gradient, 0.0), columns < n_columns)
