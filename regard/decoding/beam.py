"""Beam search with the length penalty of Wu et al. 2016.

Each step, for each prompt with its K live hypotheses:
1. of all their continuations take the (1 + E)·K most probable: at most E·K of them end, where E tokens end a text (1);
2. those among the first K that end are finished, with score = log P / lp(length); the best K others live on;
3. stop when even the best live hypothesis cannot come into the n best finished ones: log P only falls, and lp is
   largest at the limit, so log P / lp(limit) bounds all that it may become.

Nothing is copied while searching but the rows of the model's state: each step is recorded (what continued what), and
the n best hypotheses are read backwards from the record at the end.
"""

import numpy as np
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution
from regard.decoding.interface import NEAR, Record, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis


class Beam:
    """A live hypothesis is a slot 0 … K-1 of its prompt; a dead slot (the first step has K - 1) has log P = -inf."""

    def __init__(self, limits: list[int], config: DecodingConfig, end_id: int) -> None:
        self.config, self.ends, self.copies = config, (end_id, *config.ends), config.beam
        self.record = Record(len(limits))
        alpha = config.length_penalty
        self.largest_penalty = torch.tensor([length_penalty(limit, alpha) for limit in limits])
        self.live = torch.full((len(limits), config.beam), -torch.inf)  # log P of each slot, descending
        self.live[:, 0] = 0
        self.finished = torch.full((len(limits), config.n_best), -torch.inf)  # scores, descending

    def advance(self, distribution: Distribution, t: int) -> tuple[Tensor, Tensor, Tensor]:
        """See `search.Strategy`."""
        if t == 0:
            device = distribution.scores.device
            self.live, self.finished = self.live.to(device), self.finished.to(device)
            self.largest_penalty = self.largest_penalty.to(device)
        K, E = self.copies, len(self.ends)
        k = min(K + E, distribution.scores.shape[1])  # of one hypothesis, at most K go on and E end
        log_probs, ids = distribution.top(k)
        candidates = self.live[:, :, None] + log_probs.view(-1, K, k)
        best, places = candidates.flatten(1).topk(min((1 + E) * K, K * k))  # (prompts, (1 + E)·K), descending
        tokens, parents = ids.view(-1, K * k).gather(1, places), places // k

        ends = is_one_of(tokens, self.ends)
        scores = torch.where(ends, best / length_penalty(t + 1, self.config.length_penalty), -torch.inf)[:, :K]
        self.finished = torch.cat([self.finished, scores], 1).topk(self.config.n_best).values

        self.live, ranks = best.masked_fill(ends, -torch.inf).topk(K)  # (prompts, K)
        self.record.add(best, tokens, parents, ranks)
        done = self.finished[:, -1] >= self.live[:, 0] / self.largest_penalty
        return tokens.gather(1, ranks), parents.gather(1, ranks), done

    def keep(self, active: np.ndarray, groups: Tensor) -> None:
        self.record.move(active)
        self.live, self.finished = self.live[groups], self.finished[groups]
        self.largest_penalty = self.largest_penalty[groups]

    def hypotheses(self, active: np.ndarray, steps: np.ndarray) -> list[list[Hypothesis]]:
        """See `search.Strategy`."""
        self.record.move(active)
        best, tokens, parents, ranks = self.record.columns()  # (T, prompts, (1 + E)·K); ranks (T, prompts, K)
        n_steps, n_prompts, n_candidates = best.shape
        counts = np.arange(n_steps)[:, None] < steps  # (T, prompts)
        penalties = np.array([length_penalty(t + 1, self.config.length_penalty) for t in range(n_steps)])

        # A hypothesis is a candidate (t, rank).  First the n best that ended, then those alive at the last step.
        is_end = is_one_of(tokens, self.ends)
        ended = is_end & (np.arange(n_candidates) < self.copies) & counts[:, :, None]
        scores = np.where(ended, best / penalties[:, None, None], -np.inf).swapaxes(0, 1).reshape(n_prompts, -1)
        top = torch.from_numpy(scores).topk(min(self.config.n_best, scores.shape[1])).indices.numpy()
        last = np.repeat(steps[:, None] - 1, self.copies, 1)
        prompt = np.arange(n_prompts)[:, None]
        t = np.concatenate([top // n_candidates, last], 1)  # (prompts, n_best + K)
        rank = np.concatenate([top % n_candidates, ranks[last[:, 0], prompt[:, 0]]], 1)
        finished = np.arange(t.shape[1]) < top.shape[1]
        log_prob = best[t, prompt, rank]
        fits = np.where(finished, ended[t, prompt, rank], ~is_end[t, prompt, rank])
        real = fits & (log_prob > -np.inf)  # fewer than n may have ended, and fewer than K may live

        traced = trace(tokens, parents, ranks, t, rank)
        with np.errstate(invalid="ignore"):  # two dead candidates: -inf minus -inf
            near = ((best[:, :, :-1] - best[:, :, 1:] < NEAR).any(2) & counts).sum(0)

        def hypothesis(b: int, i: int) -> Hypothesis:
            return Hypothesis(
                tokens=traced[b, i, : t[b, i] + 1 - finished[i]].tolist(),
                log_prob=float(log_prob[b, i]),
                score=float(log_prob[b, i] / penalties[t[b, i]]),
                finished=bool(finished[i]),
                near_ties=int(near[b]),
            )

        best_of = [np.flatnonzero(row)[: self.config.n_best].tolist() for row in real]
        return [[hypothesis(b, i) for i in choices] for b, choices in enumerate(best_of)]


def trace(tokens: np.ndarray, parents: np.ndarray, ranks: np.ndarray, t: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """The tokens (prompts, n, T) of each hypothesis whose last token is candidate `rank` (prompts, n) of step `t`.

    A candidate continues a slot (`parents`), and a slot holds a candidate of the step before (`ranks`).
    """
    prompt = np.arange(len(t))[:, None]
    traced = np.zeros((*t.shape, len(tokens)), dtype=tokens.dtype)
    for step in range(int(t.max()), -1, -1):
        traced[:, :, step] = tokens[step, prompt, rank]  # beyond t: not read
        if step > 0:
            before = ranks[step - 1, prompt, parents[step, prompt, rank]]
            rank = np.where(step <= t, before, rank)
    return traced
