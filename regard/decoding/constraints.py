"""What a hypothesis may not say.

A block makes a token impossible and leaves the probabilities of the others as the model gave them, so that
hypotheses keep the model's own log-probability.  The repetition penalty changes the model instead: it acts on
the logits, before they are normalized.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution
from regard.decoding.search import Search
from regard.errors import ConfigError


def repetition_penalty(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """What the history (rows, t) holds gets logit / penalty, or logit · penalty if below 0.  Keskar et al. 2019."""
    n_tokens = logits.shape[1]
    held = torch.zeros(len(logits), n_tokens + 1, dtype=torch.bool, device=logits.device)
    held.scatter_(1, torch.where(history < 0, n_tokens, history), True)  # the last column is for nothing (-1)
    return torch.where(held[:, :n_tokens], torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def block_ngrams(log_probs: Tensor, history: Tensor, n: int) -> Tensor:
    """No token that would complete an n-gram which the history (rows, t) already holds.  Paulus et al. 2017."""
    if history.shape[1] < n:
        return log_probs
    ngrams = history.unfold(1, n, 1)  # (rows, t - n + 1, n)
    context = history[:, history.shape[1] - n + 1 :]  # (rows, n - 1)
    would_repeat = (ngrams[..., :-1] == context[:, None]).all(-1) & (ngrams >= 0).all(-1)
    tokens = ngrams[..., -1].clamp(min=0)
    blocked = log_probs.gather(1, tokens).masked_fill(would_repeat, -torch.inf)
    return log_probs.scatter_reduce(1, tokens, blocked, "amin")


def block_rows(log_probs: Tensor, history: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """No token that would complete one of the rows of tokens with what the history (rows, t) ends with."""
    blocked = log_probs.clone()
    for *before, last in rows:
        if len(before) <= history.shape[1]:
            end = history[:, history.shape[1] - len(before) :]
            blocked[:, last].masked_fill_((end == torch.tensor(before, device=end.device)).all(1), -torch.inf)
    return blocked


def block(log_probs: Tensor, tokens: Sequence[int]) -> Tensor:
    return log_probs.index_fill(1, torch.tensor(tokens, dtype=torch.long, device=log_probs.device), -torch.inf)


def block_ends(log_probs: Tensor, ends: Sequence[int]) -> Tensor:
    """No end, unless nothing else is left."""
    blocked = block(log_probs, ends)
    return torch.where(blocked.amax(1, keepdim=True) == -torch.inf, log_probs, blocked)


def force(log_probs: Tensor, free: Tensor, tokens: Tensor) -> Tensor:
    """Only tokens[i] in row i, with its log-probability; where tokens[i] is -1, row i of `free`."""
    ids = torch.arange(log_probs.shape[1], device=log_probs.device)
    forced = log_probs.masked_fill(ids != tokens[:, None], -torch.inf)
    return torch.where(tokens[:, None] < 0, free, forced)


class Constraints:
    """All constraints of searches of one manner, each at its own step.  A forced prefix wins over everything else."""

    def __init__(self, config: DecodingConfig, ends: tuple[int, ...], copies: int, device: torch.device) -> None:
        self.config, self.ends, self.copies, self.device = config, ends, copies, device
        self.n_forced = np.zeros(0, np.int64)  # tokens of each search's prefix
        self.prefixes = torch.zeros(0, 0, dtype=torch.long)  # (searches, longest); -1: none
        # The tokens so far of each row, where they are needed: (rows, longest); -1 stands before what is shorter.
        self.history = torch.zeros(0, 0, dtype=torch.long, device=device)
        self.is_checked = False

    @property
    def need_history(self) -> bool:
        config = self.config
        return config.repetition_penalty != 1 or config.block_ngrams > 0 or len(config.never_in_a_row) > 0

    def join(self, searches: Sequence[Search]) -> None:
        prefixes = [search.prefix for search in searches]
        self.prefixes = stacked(self.prefixes, prefixes, after=True)
        self.n_forced = np.concatenate([self.n_forced, np.array(list(map(len, prefixes)), np.int64)])
        if self.need_history:
            beginning = BEGINNINGS[self.config.counted]
            rows = [beginning(search) for search in searches for _ in range(self.copies)]
            self.history = stacked(self.history, rows, after=False)

    def keep(self, places: Tensor) -> None:
        self.prefixes = self.prefixes[places.cpu()]
        self.n_forced = self.n_forced[places.cpu().numpy()]
        if self.need_history:
            rows = places[:, None] * self.copies + torch.arange(self.copies, device=self.device)
            history = self.history[rows.flatten()]
            longest = int((history >= 0).sum(1).max()) if len(history) else 0
            self.history = history[:, history.shape[1] - longest :]

    def extend(self, tokens: Tensor, parents: Tensor | None) -> None:
        """The tokens (searches, copies) that were chosen, and the copy that each continues."""
        if not self.need_history:
            return
        if parents is not None:
            first = self.copies * torch.arange(len(parents), device=self.device)
            self.history = self.history[(first[:, None] + parents).flatten()]
        self.history = torch.cat([self.history, tokens.view(-1, 1)], 1)

    def apply(self, logits: Tensor, ages: np.ndarray) -> Distribution:
        """logits (searches · copies, V), where search i has had ages[i] steps."""
        config = self.config
        if not self.is_checked:
            self.check(logits.shape[1])
        forcing, too_short = ages < self.n_forced, ages < config.min_length
        is_first = (ages == len(config.first)) & bool(config.never_first)
        if not (forcing.any() or too_short.any() or is_first.any() or self.need_history or config.never):
            return Distribution(logits)
        if config.repetition_penalty != 1:
            logits = repetition_penalty(logits, self.history, config.repetition_penalty)
        log_probs = free = logits.log_softmax(-1)
        if config.never:
            free = block(free, config.never)
        if is_first.any():
            free = torch.where(self.rows(is_first), block(free, config.never_first), free)
        if config.never_in_a_row:
            free = block_rows(free, self.history, config.never_in_a_row)
        if config.block_ngrams:
            free = block_ngrams(free, self.history, config.block_ngrams)
        if too_short.any():
            free = torch.where(self.rows(too_short), block_ends(free, self.ends), free)
        if forcing.any():
            t = torch.from_numpy(np.minimum(ages, self.prefixes.shape[1] - 1))
            tokens = self.prefixes.gather(1, t[:, None])[:, 0].masked_fill(torch.from_numpy(~forcing), -1)
            free = force(log_probs, free, tokens.to(self.device).repeat_interleave(self.copies))
        return Distribution(free, normalized=True)

    def rows(self, which: np.ndarray) -> Tensor:
        """The rows of these searches: (rows, 1)."""
        return torch.from_numpy(which).to(self.device).repeat_interleave(self.copies)[:, None]

    def check(self, n_tokens: int) -> None:
        for name, tokens in self.config.tokens.items():
            if tokens and max(tokens) >= n_tokens:
                raise ConfigError(f"{name} lists the token {max(tokens)}; the model has {n_tokens:,}")
        self.is_checked = True


# What stands in a history before anything is written.
BEGINNINGS: dict[str, Callable[[Search], list[int]]] = {
    "written": lambda search: [],
    "start": lambda search: [search.begin],
    "prompt": lambda search: [*search.prompt],
}


def stacked(above: Tensor, rows: Sequence[Sequence[int]], after: bool) -> Tensor:
    """The rows below those that are there, filled up with -1 after them, or before."""
    longest = max(above.shape[1], *map(len, rows))

    def filled(row: Sequence[int]) -> list[int]:
        missing = [-1] * (longest - len(row))
        return [*row, *missing] if after else [*missing, *row]

    wider = (0, longest - above.shape[1]) if after else (longest - above.shape[1], 0)
    below = torch.tensor(list(map(filled, rows)), dtype=torch.long, device=above.device).view(len(rows), longest)
    return torch.cat([F.pad(above, wider, value=-1), below])
