"""One token at a time: the most probable (greedy), or one drawn at random (sampling)."""

import hashlib

import numpy as np
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution, draw, reshape
from regard.decoding.interface import NEAR, Prompts, Record, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.stopping import Stops
from regard.nn.layout import Prompt


class Greedy:
    """y_t = argmax P(y | y_<t).  The rows of a prompt never change places."""

    def __init__(self, prompts: Prompts, config: DecodingConfig, end_id: int, stops: Stops | None = None) -> None:
        self.config, self.copies, self.ends = config, config.n_best, (end_id, *config.ends)
        self.stops = stops
        # Of the active rows, for the stops: the last token of the prompt, and what was written.
        self.written: list[tuple[list[int], list[int]]] = [([*p][-1:], []) for p in prompts for _ in range(self.copies)]
        self.record = Record(len(prompts))
        self.ended: Tensor | None = None  # (active prompts, copies)

    def choose(self, distribution: Distribution, t: int) -> tuple[Tensor, Tensor, Tensor]:
        """The token of each row, its log-probability, and how far the choice was from another; each (rows,)."""
        log_probs, ids = distribution.top(min(2, distribution.scores.shape[1]))
        return ids[:, 0], log_probs[:, 0], log_probs[:, 0] - log_probs[:, -1]

    def advance(self, distribution: Distribution, t: int) -> tuple[Tensor, None, Tensor]:
        """See `search.Strategy`."""
        tokens, log_probs, gaps = (x.view(-1, self.copies) for x in self.choose(distribution, t))
        ends = is_one_of(tokens, self.ends)
        if self.stops is not None:
            ends = ends | self.stopped(tokens, self.stops)
        self.record.add(tokens, log_probs, gaps, ends)
        self.ended = ends if self.ended is None else self.ended | ends
        return tokens, None, self.ended.all(1)

    def stopped(self, tokens: Tensor, stops: Stops) -> Tensor:
        """Which rows a stop string ends here.  This waits for the device at every step."""
        for (_, written), token in zip(self.written, tokens.flatten().tolist(), strict=True):
            written.append(token)
        reached = [stops.reached(written, before) for before, written in self.written]
        return torch.tensor(reached, device=tokens.device).view(tokens.shape)

    def keep(self, active: np.ndarray, groups: Tensor) -> None:
        self.record.move(active)
        if self.ended is not None:
            self.ended = self.ended[groups]
        self.written = [
            self.written[group * self.copies + copy] for group in groups.tolist() for copy in range(self.copies)
        ]

    def hypotheses(self, active: np.ndarray, steps: np.ndarray) -> list[list[Hypothesis]]:
        self.record.move(active)
        tokens, log_probs, gaps, ended = self.record.columns()  # (steps, prompts, copies)
        by_prompt = []
        for prompt, n_steps in enumerate(steps.tolist()):
            best = []
            for copy in range(self.copies):
                ends = np.flatnonzero(ended[:n_steps, prompt, copy])
                length = int(ends[0]) + 1 if len(ends) else n_steps  # the end counts
                written = tokens[:length, prompt, copy].tolist()
                log_prob = float(log_probs[:length, prompt, copy].sum(dtype=np.float64))
                best.append(
                    Hypothesis(
                        tokens=written[:-1] if written[-1] in self.ends else written,
                        log_prob=log_prob,
                        score=log_prob / length_penalty(length, self.config.length_penalty),
                        finished=len(ends) > 0,
                        near_ties=int((gaps[:length, prompt, copy] < NEAR).sum()),
                    )
                )
            by_prompt.append(sorted(best, key=lambda hypothesis: -hypothesis.score))
        return by_prompt


class Sampling(Greedy):
    """y_t ~ P(y | y_<t), reshaped by the samplers.

    The random numbers of a row depend on the seed, its prompt and its copy alone, so a prompt gets the same samples
    in any batch, at any place, on any device.
    """

    def __init__(
        self, prompts: Prompts, limits: list[int], config: DecodingConfig, end_id: int, stops: Stops | None = None
    ) -> None:
        super().__init__(prompts, config, end_id, stops)
        uniforms = torch.zeros(len(prompts), self.copies, max(limits), dtype=torch.float64)
        for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
            for copy in range(self.copies):
                seed = torch.Generator().manual_seed(seed_of(config.seed, copy, prompt))
                uniforms[row, copy, :limit] = torch.rand(limit, generator=seed, dtype=torch.float64)
        self.uniforms = uniforms  # (active prompts, copies, steps)

    def choose(self, distribution: Distribution, t: int) -> tuple[Tensor, Tensor, Tensor]:
        log_probs = distribution.log_probs()
        self.uniforms = self.uniforms.to(log_probs.device)
        tokens, distances = draw(reshape(log_probs, self.config), self.uniforms[:, :, t].flatten())
        return tokens, log_probs.gather(1, tokens[:, None])[:, 0], distances

    def keep(self, active: np.ndarray, groups: Tensor) -> None:
        super().keep(active, groups)
        self.uniforms = self.uniforms[groups]


def seed_of(seed: int, copy: int, prompt: Prompt) -> int:
    content = np.array([seed, copy, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=7).digest())
