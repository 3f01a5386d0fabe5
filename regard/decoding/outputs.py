"""What searches give back.  This imports no PyTorch, so that requests and answers can be described quickly."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    tokens: list[int]  # without start and end
    log_prob: float  # of the tokens and, when finished, of the end
    score: float  # log_prob / length penalty: what hypotheses are ranked by
    finished: bool  # False: the length limit came before the end
    near_ties: int = 0  # steps at which two choices differed by less than 1e-5, so rounding may have decided


@dataclass(frozen=True)
class Place:
    """What was said at one place of a target, and what else might have been."""

    token: int
    log_prob: float
    best: list[tuple[int, float]]  # the likeliest tokens and their log P, descending
