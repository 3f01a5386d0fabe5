"""The distribution over the next token, and its best tokens.  A vocabulary is long, so it is read few times."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64  # values compared at once by `top`
ROWS = 64  # rows normalized at once on a CPU: larger temporaries cost more in page faults than in arithmetic


@dataclass(frozen=True)
class Distribution:
    """One row per hypothesis: scores (rows, V) are logits, or log-probabilities when `normalized`."""

    scores: Tensor
    normalized: bool = False

    def log_probs(self) -> Tensor:
        return self.scores if self.normalized else self.scores.log_softmax(-1)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of each row: their log-probabilities, descending, and ids; each (rows, k)."""
        values, ids = top(self.scores, k)
        if self.normalized:
            return values, ids
        return values - values[:, :1] - surprise(self.scores, ids[:, 0])[:, None], ids


def surprise(logits: Tensor, tokens: Tensor) -> Tensor:
    """-log P(token) of one token per row."""
    if logits.is_cuda:
        return F.cross_entropy(logits, tokens, reduction="none")
    parts = zip(logits.split(ROWS), tokens.split(ROWS), strict=True)
    return torch.cat([F.cross_entropy(rows, ids, reduction="none") for rows, ids in parts])


def top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """x.topk(k) for long rows: the k best values lie in the k chunks whose maxima are largest."""
    n_rows, n = x.shape
    n_chunks = n // CHUNK
    if n_chunks <= 2 * k:
        return x.topk(k)
    chunks = x[:, : n_chunks * CHUNK].unflatten(1, (n_chunks, CHUNK))
    best = chunks.amax(-1).topk(k).indices  # (rows, k)
    candidates = chunks.gather(1, best[:, :, None].expand(-1, -1, CHUNK)).flatten(1)
    where = (best[:, :, None] * CHUNK + torch.arange(CHUNK, device=x.device)).flatten(1)
    if n % CHUNK:  # the rest is not a whole chunk: all of it is compared
        rest = torch.arange(n_chunks * CHUNK, n, device=x.device)
        candidates = torch.cat([candidates, x[:, n_chunks * CHUNK :]], 1)
        where = torch.cat([where, rest.expand(n_rows, -1)], 1)
    values, places = candidates.topk(k)
    return values, where.gather(1, places)
