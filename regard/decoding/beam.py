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
from torch.nn import functional as F

from regard.decoding.distribution import Distribution
from regard.decoding.interface import NEAR, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.decoding.strategy import Kept, Strategy


class Beam(Strategy):
    """A live hypothesis is a slot 0 … K-1 of its prompt; a dead slot (the first step has K - 1) has log P = -inf."""

    columns = "best", "tokens", "parents", "ranks"

    def fresh(self, searches: Sequence[Search]) -> Kept:
        K, room = self.copies, max(search.limit for search in searches)
        live = torch.full((len(searches), K), -torch.inf)  # log P of each slot, descending
        live[:, 0] = 0
        finished = torch.full((len(searches), self.config.n_best), -torch.inf)  # scores, descending
        best = torch.zeros(len(searches), room + 1, (1 + len(self.ends)) * K)
        return {
            **super().fresh(searches),
            "live": live,
            "finished": finished,
            "best": best,
            "tokens": best.long(),
            "parents": best.long(),
            "ranks": best[:, :, :K].long(),
        }

    def penalty(self, length: Tensor) -> Tensor:
        return length_penalty(length, self.config.length_penalty)

    def choose(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See `Strategy`."""
        K, E, kept = self.copies, len(self.ends), self.kept
        k = min(K + E, distribution.scores.shape[1])  # of one hypothesis, at most K go on and E end
        log_probs, ids = distribution.top(k)
        candidates = kept["live"][:, :, None] + log_probs.view(-1, K, k)
        best, places = candidates.flatten(1).topk(min((1 + E) * K, K * k))  # (prompts, (1 + E)·K), descending
        tokens, parents = ids.view(-1, K * k).gather(1, places), places // k
        missing = (0, (1 + E) * K - best.shape[1])  # of a tiny vocabulary
        if missing[1]:
            best, tokens, parents = (
                F.pad(best, missing, value=-torch.inf),
                F.pad(tokens, missing),
                F.pad(parents, missing),
            )

        ends = is_one_of(tokens, self.ends)
        scores = torch.where(ends, best / self.penalty(t[:, None] + 1), -torch.inf)[:, :K]
        kept["finished"] = torch.cat([kept["finished"], scores], 1).topk(self.config.n_best).values

        kept["live"], ranks = best.masked_fill(ends, -torch.inf).topk(K)  # (prompts, K)
        self.record(t, best=best, tokens=tokens, parents=parents, ranks=ranks)
        done = kept["finished"][:, -1] >= kept["live"][:, 0] / self.penalty(kept["limits"])
        return tokens.gather(1, ranks), parents.gather(1, ranks), done

    def stop(self, place: int, n_steps: int) -> None:
        """A beam has no stop strings: `plan` refuses them."""

    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        """See `Strategy`."""
        longest = int(steps.max())
        # (T, prompts, (1 + E)·K); ranks (T, prompts, K)
        best, tokens, parents, ranks = self.read(places, longest)
        n_steps, n_prompts, n_candidates = best.shape
        counts = np.arange(n_steps)[:, None] < steps  # (T, prompts)
        penalties = self.penalty(torch.arange(1, longest + 1)).numpy()

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
        best, tokens, parents, ranks = self.read(torch.tensor([place], device=self.device), n_steps)
        lives = best[n_steps - 1, 0, ranks[n_steps - 1, 0]] > -np.inf
        live = ranks[n_steps - 1, 0][lives]
        scores = (
            best[:, 0, : self.copies]
            / self.penalty(torch.arange(1, n_steps + 1, device=self.device)).cpu().numpy()[:, None]
        )
        is_best = (scores > -np.inf) & (scores >= float(self.kept["finished"][place, -1]))
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
