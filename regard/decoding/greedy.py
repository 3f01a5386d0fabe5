"""One token at a time: the most probable (greedy), or one drawn at random (sampling)."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.distribution import Distribution, draw, reshape
from regard.decoding.interface import NEAR, is_one_of, length_penalty
from regard.decoding.outputs import Hypothesis
from regard.decoding.search import Search
from regard.decoding.strategy import Strategy
from regard.nn.layout import Prompt


class Greedy(Strategy):
    """y_t = argmax P(y | y_<t).  The rows of a prompt never change places."""

    def __init__(self, like: Search, device: torch.device) -> None:
        super().__init__(like, device)
        # Of rows with stop strings, what was written so far; of others, None.
        self.written: list[list[int] | None] = []
        self.ended = torch.zeros(0, self.copies, dtype=torch.bool, device=device)

    def add(self, searches: Sequence[Search]) -> None:
        self.written += [None if search.stops is None else [] for search in searches for _ in range(self.copies)]
        self.ended = F.pad(self.ended, (0, 0, 0, len(searches)))

    def pick(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The token of each row, its log-probability, and how far the choice was from another; each (rows,)."""
        log_probs, ids = distribution.top(min(2, distribution.scores.shape[1]))
        return ids[:, 0], log_probs[:, 0], log_probs[:, 0] - log_probs[:, -1]

    def choose(self, distribution: Distribution, t: Tensor, room: int) -> tuple[Tensor, None, Tensor]:
        """See `Strategy`."""
        tokens, log_probs, gaps = (x.view(-1, self.copies) for x in self.pick(distribution, t))
        ends = is_one_of(tokens, self.ends)
        if any(written is not None for written in self.written):
            ends = ends | self.stopped(tokens)
        self.record.write(t, room, tokens, log_probs, gaps, ends)
        self.ended = self.ended | ends
        return tokens, None, self.ended.all(1)

    def stopped(self, tokens: Tensor) -> Tensor:
        """Which rows a stop string ends here.  This waits for the device at every step."""
        reached = []
        for row, token in enumerate(tokens.flatten().tolist()):
            written, search = self.written[row], self.searches[row // self.copies]
            if written is not None:
                written.append(token)
            reached.append(
                written is not None
                and search.stops is not None
                and search.stops.reached(written, [*search.prompt][-1:])
            )
        return torch.tensor(reached, device=tokens.device).view(tokens.shape)

    def keep(self, places: Tensor) -> None:
        super().keep(places)
        self.ended = self.ended[places]
        self.written = [
            self.written[place * self.copies + copy] for place in places.tolist() for copy in range(self.copies)
        ]

    def hypotheses(self, places: Tensor, steps: np.ndarray) -> list[list[Hypothesis]]:
        tokens, log_probs, gaps, ended = self.record.read(places, int(steps.max()))  # (steps, prompts, copies)
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
        tokens = self.record.columns[0][place, :n_steps, 0].tolist()
        ends = self.record.columns[3][place, :n_steps, 0].tolist()
        length = ends.index(True) if True in ends else n_steps
        return [token for token in tokens[: length + 1] if token not in self.ends]


class Sampling(Greedy):
    """y_t ~ P(y | y_<t), reshaped by the samplers.

    The random numbers of a row depend on the seed, its prompt and its copy alone, so a prompt gets the same samples
    in any batch, at any place, on any device.
    """

    def __init__(self, like: Search, device: torch.device) -> None:
        super().__init__(like, device)
        self.uniforms = torch.zeros(0, self.copies, 0, dtype=torch.float64, device=device)  # (searches, copies, steps)

    def add(self, searches: Sequence[Search]) -> None:
        super().add(searches)
        room = max(self.uniforms.shape[2], *(search.limit for search in searches))
        uniforms = torch.zeros(len(searches), self.copies, room, dtype=torch.float64)
        for row, search in enumerate(searches):
            for copy in range(self.copies):
                seed = torch.Generator().manual_seed(seed_of(search.config.seed, copy, search.prompt))
                uniforms[row, copy, : search.limit] = torch.rand(search.limit, generator=seed, dtype=torch.float64)
        before = F.pad(self.uniforms, (0, room - self.uniforms.shape[2]))
        self.uniforms = torch.cat([before, uniforms.to(self.device)])

    def pick(self, distribution: Distribution, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        log_probs = distribution.log_probs()
        now = self.uniforms.gather(2, t[:, None, None].expand(-1, self.copies, 1))
        tokens, distances = draw(reshape(log_probs, self.config), now.flatten())
        return tokens, log_probs.gather(1, tokens[:, None])[:, 0], distances

    def keep(self, places: Tensor) -> None:
        super().keep(places)
        self.uniforms = self.uniforms[places]


def seed_of(seed: int, copy: int, prompt: Prompt) -> int:
    content = np.array([seed, copy, *prompt], dtype=np.int64).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=7).digest())
