"""The distribution over the next token: its best tokens, and ways to reshape it before one is drawn.

A vocabulary is long, so it is read few times.  A sampler takes logits (rows, V) and gives logits; `top_k`, `top_p` and
`min_p` set what they drop to -inf, and never drop the most probable token.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.nn.compiler import compile_failure

FEW = 16  # tokens that a kernel of ours finds in one pass
CHUNK = 64  # values compared at once by `top`
ROWS = 64  # rows normalized at once on a CPU: larger temporaries cost more in page faults than in arithmetic


@dataclass(frozen=True)
class Distribution:
    """One row per hypothesis: scores (rows, V) are logits, or log-probabilities when `normalized`."""

    scores: Tensor
    normalized: bool = False

    def log_probs(self) -> Tensor:
        return self.scores if self.normalized else self.scores.float().log_softmax(-1)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of each row: their log-probabilities, descending, and ids; each (rows, k)."""
        if self.scores.is_cuda and k <= FEW and not self.normalized and not compile_failure("cuda"):
            from regard.nn.step_kernels import best  # where there is a GPU and a compiler, there is Triton

            return best(self.scores, k)
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


def temperature(logits: Tensor, t: float) -> Tensor:
    """P(token)^(1/t), renormalized: sharper below 1, flatter above."""
    return logits / t


def top_k(logits: Tensor, k: int) -> Tensor:
    """Only the k most probable tokens (and what ties with the last of them).  Fan et al. 2018."""
    if k >= logits.shape[-1]:
        return logits
    least = logits.topk(k).values[:, -1:]
    return logits.masked_fill(logits < least, -torch.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Only the fewest most probable tokens whose probabilities sum to at least p.  Holtzman et al. 2020."""
    probs, ids = logits.softmax(-1).sort(descending=True, stable=True)
    before = probs.cumsum(-1) - probs  # probability of all that come before a token
    dropped = before >= p
    dropped[:, 0] = False
    return logits.masked_fill(dropped.scatter(1, ids, dropped), -torch.inf)


def min_p(logits: Tensor, p: float) -> Tensor:
    """Only tokens at least p times as probable as the best.  Nguyen et al. 2024."""
    probs = logits.softmax(-1)
    return logits.masked_fill(probs < p * probs.amax(-1, keepdim=True), -torch.inf)


def reshape(logits: Tensor, config: DecodingConfig) -> Tensor:
    """All samplers whose setting changes something, in this order."""
    if config.temperature != 1:
        logits = temperature(logits, config.temperature)
    if config.top_k:
        logits = top_k(logits, config.top_k)
    if config.top_p != 1:
        logits = top_p(logits, config.top_p)
    if config.min_p:
        logits = min_p(logits, config.min_p)
    return logits


def draw(logits: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """The token of each row at which the cumulative probability passes uniforms (rows,) in [0, 1).

    Also the distance of the uniform number from the nearest point at which it would have drawn another token.
    """
    ends = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
    points = (uniforms * ends[:, -1]).unsqueeze(1)
    tokens = torch.searchsorted(ends, points, right=True).clamp(max=logits.shape[1] - 1)
    above = ends.gather(1, tokens) - points
    below = torch.where(tokens > 0, points - ends.gather(1, (tokens - 1).clamp(min=0)), torch.inf)
    return tokens[:, 0], torch.minimum(above, below)[:, 0].float()
