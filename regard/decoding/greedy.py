"""One token at a time: the most probable (greedy), or one drawn at random (sampling)."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.decoding.distribution import Distribution, draw, reshape
from regard.decoding.interface import NEAR, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.decoding.strategy import Kept, Strategy
from regard.nn.layout import Prompt


class Greedy(Strategy):
    """y_t = argmax P(y | y_<t).  The rows of a prompt never change places."""

    columns = "tokens", "log_probs", "gaps", "ends"

    def fresh(self, searches: Sequence[Search]) -> Kept:
        room = max(search.limit for search in searches)
        tokens = torch.zeros(len(searches), room + 1, self.copies, dtype=torch.long)
        written = {"tokens": tokens, "log_probs": tokens.float(), "gaps": tokens.float(), "ends": tokens.bool()}
        return {**super().fresh(searches), **written, "ended": tokens[:, 0].bool()}

    def pick(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The token of each row, its log-probability, and how far the choice was from another; each (rows,)."""
        log_probs, ids = distribution.top(min(2, distribution.scores.shape[1]))
        return ids[:, 0], log_probs[:, 0], log_probs[:, 0] - log_probs[:, -1]

    def choose(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, None, Tensor]:
        """See `Strategy`."""
        tokens, log_probs, gaps = (x.view(-1, self.copies) for x in self.pick(distribution, t))
        ends = is_one_of(tokens, self.ends)
        self.record(t, tokens=tokens, log_probs=log_probs, gaps=gaps, ends=ends)
        ended = self.kept["ended"]
        ended |= ends
        return tokens, None, ended[:, 0] if self.copies == 1 else ended.all(1)

    def stop(self, place: int, n_steps: int) -> None:
        """See `Strategy`.  This waits for the device."""
        search, age = self.searches[place], int(min(self.ages[place], self.limits[place]))
        if search.stops is None:
            return
        tokens = self.kept["tokens"][place, :age].T.tolist()
        ended = self.kept["ends"][place, :age].T.tolist()
        for copy, (written, ends) in enumerate(zip(tokens, ended, strict=True)):
            if any(ends):
                continue
            for length in range(max(age - n_steps, 0) + 1, age + 1):
                if search.stops.reached(written[:length], [*search.prompt][-1:]):
                    self.kept["ends"][place, length - 1, copy] = True
                    self.kept["ended"][place, copy] = True
                    break
        if bool(self.kept["ended"][place].all()):
            last = max(row.index(True) for row in self.kept["ends"][place, :age].T.tolist())
            self.kept["ended_at"][place] = last + 1

    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        tokens, log_probs, gaps, ended = self.read(places, int(steps.max()))  # (steps, prompts, copies)
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

    def agreed(self, place: int, n_steps: int) -> list[int]:
        tokens = self.kept["tokens"][place, :n_steps, 0].tolist()
        ends = self.kept["ends"][place, :n_steps, 0].tolist()
        length = ends.index(True) if True in ends else n_steps
        return [token for token in tokens[: length + 1] if token not in self.ends]


class Sampling(Greedy):
    """y_t ~ P(y | y_<t), reshaped by the samplers.

    The random numbers of a row depend on the seed, its prompt and its copy alone, so a prompt gets the same samples
    in any batch, at any place, on any device.
    """

    def fresh(self, searches: Sequence[Search]) -> Kept:
        room = max(search.limit for search in searches)
        uniforms = torch.zeros(len(searches), self.copies, room, dtype=torch.float64)
        for row, search in enumerate(searches):
            for copy in range(self.copies):
                seed = torch.Generator().manual_seed(seed_of(search.config.seed, copy, search.prompt))
                uniforms[row, copy, : search.limit] = torch.rand(search.limit, generator=seed, dtype=torch.float64)
        return {**super().fresh(searches), "uniforms": uniforms}

    def pick(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_probs = distribution.log_probs()
        uniforms = self.kept["uniforms"]
        now = uniforms.gather(2, t.clamp(max=uniforms.shape[2] - 1)[:, None, None].expand(-1, self.copies, 1))
        tokens, distances = draw(reshape(log_probs, self.config), now.flatten())
        return tokens, log_probs.gather(1, tokens[:, None])[:, 0], distances


def seed_of(seed: int, copy: int, prompt: Prompt) -> int:
    content = np.array([seed, copy, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=7).digest())
