"""Ways to reshape a distribution before a token is drawn.  Each takes logits (rows, V) and gives logits.

`top_k`, `top_p` and `min_p` set what they drop to -inf.  They never drop the most probable token.
"""

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig


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
    dropped = (before >= p).index_fill(1, torch.tensor([0], device=logits.device), False)
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
    return tokens[:, 0], torch.minimum(above, below)[:, 0]
