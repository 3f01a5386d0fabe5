"""How well a key fits a query.  Each score maps queries (B, H, Q, E) and keys (B, H, K, E) to (B, H, Q, K).

`scale` is what a fused kernel multiplies q . k with; a score that is no scaled product has None and takes
the readable path.
"""

import math

from torch import Tensor, nn


class Score(nn.Module):
    scale: float | None = None

    def __init__(self, d_head: int):
        super().__init__()


class Dot(Score):
    """q . k  (Luong et al. 2015, eq. 8)"""

    scale = 1.0

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ keys.mT


class ScaledDot(Score):
    """q . k / sqrt(d_head)  (Vaswani et al. 2017, eq. 1)"""

    def __init__(self, d_head: int):
        super().__init__(d_head)
        self.scale: float = 1 / math.sqrt(d_head)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries * self.scale) @ keys.mT


SCORES: dict[str, type[Score]] = {"dot": Dot, "scaled_dot": ScaledDot}
