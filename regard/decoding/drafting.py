"""How proposed tokens are accepted or refused, and what each text of speculative decoding has so far."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution, draw, reshape
from regard.decoding.greedy import seed_of
from regard.decoding.interface import NEAR, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.errors import RegardError


class Verdict(NamedTuple):
    """What the model says to proposed tokens; each (rows, n).  A row writes its tokens up to the first refused one."""

    tokens: Tensor  # the proposed ones, or what stands in the place of a refused one
    are_accepted: Tensor
    log_probs: Tensor
    gaps: Tensor  # how far each choice was from another


class GreedyChoice:
    """Greedy: propose the draft's best token, and accept it where it is the model's best."""

    def __init__(self, config: DecodingConfig) -> None:
        self.config = config

    def propose(self, drafted: Distribution, chances: Tensor) -> tuple[Tensor, Tensor]:
        """A token for each row, (rows,), and what `judge` has to know of how it was chosen."""
        tokens = drafted.scores.argmax(-1)
        return tokens, torch.empty(len(tokens), 0, device=tokens.device)

    def judge(self, wanted: Distribution, tokens: Tensor, known: Tensor, chances: Tensor) -> Verdict:
        """`tokens` (N,) were proposed, of which `propose` gave `known` (N, ...)."""
        log_probs, best = wanted.top(min(2, wanted.scores.shape[1]))
        return Verdict(best[:, 0], best[:, 0] == tokens, log_probs[:, 0], log_probs[:, 0] - log_probs[:, -1])


class SampledChoice(GreedyChoice):
    """x ~ q is accepted with probability min(1, p(x) / q(x)); in place of a refused one, x ~ max(0, p - q), scaled to
    sum to 1.  Then x ~ p.  Leviathan et al. 2023, section 2.3.

    A token depends on three random numbers of its own place, not on how many were proposed with it.  (So where all are
    accepted nothing is drawn after the last of them: the next round proposes that place.)
    """

    def propose(self, drafted: Distribution, chances: Tensor) -> tuple[Tensor, Tensor]:
        log_q = reshape(drafted.log_probs(), self.config)
        tokens, distances = draw(log_q, chances[:, 0])
        return tokens, torch.cat([log_q.softmax(-1), distances[:, None].float()], 1)

    def judge(self, wanted: Distribution, tokens: Tensor, known: Tensor, chances: Tensor) -> Verdict:
        log_probs, (q, drawn_gaps) = wanted.log_probs(), known.split([known.shape[1] - 1, 1], 1)
        p = reshape(log_probs, self.config).softmax(-1)
        ratio = (p.gather(1, tokens[:, None]) / q.gather(1, tokens[:, None]))[:, 0]
        are_accepted = chances[:, 1] < ratio
        gaps = torch.minimum((chances[:, 1] - ratio).abs(), drawn_gaps[:, 0])
        rest = (p - q).clamp(min=0)
        rest = torch.where(rest.sum(1, keepdim=True) > 0, rest, p)  # p = q but for rounding
        others, distances = draw(rest.log(), chances[:, 2])
        tokens = torch.where(are_accepted, tokens, others)
        gaps = torch.where(are_accepted, gaps, torch.minimum(gaps, distances))
        return Verdict(tokens, are_accepted, log_probs.gather(1, tokens[:, None])[:, 0], gaps)


class DraftedRow:
    """One text that is being written."""

    def __init__(self, search: Search, copy: int) -> None:
        self.search = search
        self.tokens: list[int] = []  # with the end
        self.log_prob, self.near_ties = 0.0, 0
        self.is_ended = self.is_finished = False  # by the length limit, or by an end of its own
        seed = torch.Generator().manual_seed(seed_of(search.config.seed, copy, search.prompt))
        n_chances = 3 if search.config.sample else 0
        self.chances = torch.rand(search.limit, n_chances, generator=seed, dtype=torch.float64)  # for each place

    @property
    def room(self) -> int:
        return self.search.limit - len(self.tokens)

    def write(self, token: int, log_prob: float, gap: float) -> None:
        search = self.search
        self.tokens.append(token)
        self.log_prob += log_prob
        self.near_ties += gap < NEAR
        is_stopped = search.stops is not None and search.stops.reached(self.tokens, [*search.prompt][-1:])
        self.is_finished = token in search.ends or is_stopped
        self.is_ended = self.is_finished or self.room == 0

    def hypothesis(self) -> Hypothesis:
        if math.isnan(self.log_prob):
            raise RegardError("the model's scores are NaN: its weights contain NaN; take an earlier checkpoint")
        return Hypothesis(
            tokens=self.tokens[:-1] if self.tokens[-1] in self.search.ends else list(self.tokens),
            log_prob=self.log_prob,
            score=self.log_prob / length_penalty(len(self.tokens), self.search.config.length_penalty),
            finished=self.is_finished,
            near_ties=self.near_ties,
        )
