"""Beam search with the length penalty of Wu et al. 2016.

Each step, for each prompt with its K live hypotheses:
1. of all their continuations take the (1 + E)·K most probable: at most E·K of them end, where E tokens end a text (1);
2. those among the first K that end are finished, with score = log P / lp(length); the best K others live on;
3. stop when even the best live hypothesis cannot come into the n best finished ones: log P only falls, and lp is
   largest at the limit, so log P / lp(limit) bounds all that it may become.

Nothing is copied while searching but the rows of the model's state: each step is recorded (what continued what), and
the n best hypotheses are read backwards from the record at the end.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.decoding.distribution import Distribution
from regard.decoding.interface import NEAR, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.decoding.strategy import Strategy


class Beam(Strategy):
    """A live hypothesis is a slot 0 … K-1 of its prompt; a dead slot (the first step has K - 1) has log P = -inf."""

    def __init__(self, like: Search, device: torch.device) -> None:
        super().__init__(like, device)
        self.penalties = torch.ones(1, device=device)  # by length
        self.largest_penalty = torch.zeros(0, device=device)
        self.live = torch.zeros(0, self.copies, device=device)  # log P of each slot, descending
        self.finished = torch.zeros(0, self.config.n_best, device=device)  # scores, descending

    def add(self, searches: Sequence[Search]) -> None:
        limits = [search.limit for search in searches]
        if max(limits) >= len(self.penalties):
            self.penalties = torch.tensor(self.penalties_to(max(limits)), device=self.device)
        live = self.live.new_full((len(searches), self.copies), -torch.inf)
        live[:, 0] = 0
        finished = live.new_full((len(searches), self.config.n_best), -torch.inf)
        self.live, self.finished = torch.cat([self.live, live]), torch.cat([self.finished, finished])
        self.largest_penalty = torch.cat([self.largest_penalty, self.penalties[limits]])

    def penalties_to(self, longest: int) -> list[float]:
        return [length_penalty(length, self.config.length_penalty) for length in range(longest + 1)]

    def choose(self, distribution: Distribution, t: Tensor, room: int) -> tuple[Tensor, Tensor, Tensor]:
        """See `Strategy`."""
        K, E = self.copies, len(self.ends)
        k = min(K + E, distribution.scores.shape[1])  # of one hypothesis, at most K go on and E end
        log_probs, ids = distribution.top(k)
        candidates = self.live[:, :, None] + log_probs.view(-1, K, k)
        best, places = candidates.flatten(1).topk(min((1 + E) * K, K * k))  # (prompts, (1 + E)·K), descending
        tokens, parents = ids.view(-1, K * k).gather(1, places), places // k

        ends = is_one_of(tokens, self.ends)
        scores = torch.where(ends, best / self.penalties[t + 1, None], -torch.inf)[:, :K]
        self.finished = torch.cat([self.finished, scores], 1).topk(self.config.n_best).values

        self.live, ranks = best.masked_fill(ends, -torch.inf).topk(K)  # (prompts, K)
        self.record.write(t, room, best, tokens, parents, ranks)
        done = self.finished[:, -1] >= self.live[:, 0] / self.largest_penalty
        return tokens.gather(1, ranks), parents.gather(1, ranks), done

    def keep(self, places: Tensor) -> None:
        super().keep(places)
        self.live, self.finished = self.live[places], self.finished[places]
        self.largest_penalty = self.largest_penalty[places]

    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        """See `Strategy`."""
        longest = int(steps.max())
        # (T, prompts, (1 + E)·K); ranks (T, prompts, K)
        best, tokens, parents, ranks = self.record.read(places, longest)
        n_steps, n_prompts, n_candidates = best.shape
        counts = np.arange(n_steps)[:, None] < steps  # (T, prompts)
        penalties = np.array(self.penalties_to(longest)[1:])

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

    def agreed(self, place: int, n_steps: int) -> list[int]:
        """What all live hypotheses begin with, and those of the n best that have ended."""
        best, tokens, parents, ranks = self.record.read(torch.tensor([place]), n_steps)
        lives = best[n_steps - 1, 0, ranks[n_steps - 1, 0]] > -np.inf
        live = ranks[n_steps - 1, 0][lives]
        scores = best[:, 0, : self.copies] / self.penalties[1 : n_steps + 1, None].cpu().numpy()
        is_best = (scores > -np.inf) & (scores >= float(self.finished[place, -1]))
        step, rank = np.nonzero(is_one_of(tokens[:, 0, : self.copies], self.ends) & is_best)
        t = np.concatenate([np.full(len(live), n_steps - 1), step])[None]
        traced = trace(tokens, parents, ranks, t, np.concatenate([live, rank])[None])[0]
        texts = [row[: last + 1].tolist() for row, last in zip(traced, t[0].tolist(), strict=True)]
        texts = [text[:-1] if text[-1] in self.ends else text for text in texts]
        shared = 0
        while all(len(text) > shared and text[shared] == texts[0][shared] for text in texts):
            shared += 1
        return texts[0][:shared]


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
