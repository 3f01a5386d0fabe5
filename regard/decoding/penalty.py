"""What makes hypotheses of different lengths comparable, and what makes two choices too close to call."""

NEAR = 1e-5  # choices closer than this may be decided by rounding, hence by the batch they are computed in


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α, with the end counted in |Y|; score = log P(Y) / lp(Y).  Wu et al. 2016, eq. 14."""
    return ((5 + length) / 6) ** alpha
