"""What a hypothesis may not say.

A block makes a token impossible and leaves the probabilities of the others as the model gave them, so that
hypotheses keep the model's own log-probability.  The repetition penalty changes the model instead: it acts on
the logits, before they are normalized.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

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
            is_complete = torch.ones(len(end), dtype=torch.bool, device=end.device)
            for place, token in enumerate(before):
                is_complete = is_complete & (end[:, place] == token)
            blocked[:, last].masked_fill_(is_complete, -torch.inf)
    return blocked


def block(log_probs: Tensor, tokens: Tensor) -> Tensor:
    return log_probs.index_fill(1, tokens, -torch.inf)


def block_ends(log_probs: Tensor, ends: Tensor) -> Tensor:
    """No end, unless nothing else is left."""
    blocked = block(log_probs, ends)
    return torch.where(blocked.amax(1, keepdim=True) == -torch.inf, log_probs, blocked)


def force(log_probs: Tensor, free: Tensor, tokens: Tensor) -> Tensor:
    """Only tokens[i] in row i, with its log-probability; where tokens[i] is -1, row i of `free`."""
    ids = torch.arange(log_probs.shape[1], device=log_probs.device)
    forced = log_probs.masked_fill(ids != tokens[:, None], -torch.inf)
    return torch.where(tokens[:, None] < 0, free, forced)


class Active(NamedTuple):
    """Which constraints matter to some search in one step: all others need not be computed."""

    forcing: bool
    too_short: bool
    is_first: bool


class Constraints:
    """All constraints of searches of one manner, each at its own step.  A forced prefix wins over everything else.

    What they remember of a search is kept with all else that is kept of it (`Strategy`): `prefixes` (searches,
    longest), with -1 after what is shorter, and the tokens so far where they are needed, `history` (searches, copies,
    longest), the newest first.
    """

    def __init__(self, config: DecodingConfig, ends: tuple[int, ...], copies: int) -> None:
        self.config, self.ends, self.copies = config, ends, copies
        self.listed: dict[str, Tensor] = {}  # what is blocked, on the device: a CUDA graph cannot hold it on the host

    @property
    def need_history(self) -> bool:
        config = self.config
        return config.repetition_penalty != 1 or config.block_ngrams > 0 or len(config.never_in_a_row) > 0

    def fresh(self, searches: Sequence[Search]) -> dict[str, Tensor]:
        kept = {"prefixes": stacked([search.prefix for search in searches])}
        if self.need_history:
            beginnings = [BEGINNINGS[self.config.counted](search)[::-1] for search in searches]
            limits = [search.limit for search in searches]
            longest = max(len(tokens) + limit for tokens, limit in zip(beginnings, limits, strict=True))
            kept["history"] = stacked(beginnings, longest)[:, None].repeat(1, self.copies, 1)
        return kept

    def extend(self, kept: dict[str, Tensor], tokens: Tensor, parents: Tensor | None) -> None:
        """The tokens (searches, copies) that were chosen, and the copy that each continues."""
        if not self.need_history:
            return
        history = kept["history"]
        if parents is not None:
            history = history.gather(1, parents[:, :, None].expand_as(history))
        kept["history"] = torch.cat([tokens[:, :, None], history[:, :, :-1]], 2)

    def active(self, ages: np.ndarray, n_forced: np.ndarray) -> Active:
        """Of searches that have had so many steps, and whose prefixes have so many tokens."""
        config = self.config
        is_first = bool(config.never_first) and bool((ages == len(config.first)).any())
        return Active(bool((ages < n_forced).any()), bool((ages < config.min_length).any()), is_first)

    def apply(self, logits: Tensor, kept: Mapping[str, Tensor], active: Active) -> Distribution:
        """logits (searches · copies, V), where search i has had t[i] steps."""
        config, t = self.config, kept["t"]
        if not self.listed:
            self.check(logits.shape[1])
            blocked = {"never": config.never, "never_first": config.never_first, "ends": self.ends}
            self.listed = {name: torch.tensor(ids, dtype=torch.long).to(t.device) for name, ids in blocked.items()}
        if not (any(active) or self.need_history or config.never):
            return Distribution(logits)
        if self.need_history:
            history = kept["history"].flatten(0, 1).flip(1)  # (rows, longest), the newest last
        logits = logits.float()
        if config.repetition_penalty != 1:
            logits = repetition_penalty(logits, history, config.repetition_penalty)
        log_probs = free = logits.log_softmax(-1)
        if config.never:
            free = block(free, self.listed["never"])
        if active.is_first:
            free = torch.where(self.rows(t == len(config.first)), block(free, self.listed["never_first"]), free)
        if config.never_in_a_row:
            free = block_rows(free, history, config.never_in_a_row)
        if config.block_ngrams:
            free = block_ngrams(free, history, config.block_ngrams)
        if active.too_short:
            free = torch.where(self.rows(t < config.min_length), block_ends(free, self.listed["ends"]), free)
        if active.forcing:
            last = kept["prefixes"].shape[1] - 1
            tokens = kept["prefixes"].gather(1, t.clamp(max=last)[:, None])[:, 0].masked_fill(t > last, -1)
            free = force(log_probs, free, tokens.repeat_interleave(self.copies))
        return Distribution(free, normalized=True)

    def rows(self, which: Tensor) -> Tensor:
        """The rows of these searches: (rows, 1)."""
        return which.repeat_interleave(self.copies)[:, None]

    def check(self, n_tokens: int) -> None:
        for name, tokens in self.config.tokens.items():
            if tokens and max(tokens) >= n_tokens:
                raise ConfigError(f"{name} lists the token {max(tokens)}; the model has {n_tokens:,}")


# What stands in a history before anything is written.
BEGINNINGS: dict[str, Callable[[Search], list[int]]] = {
    "written": lambda search: [],
    "start": lambda search: [search.begin],
    "prompt": lambda search: [*search.prompt],
}


def stacked(rows: Sequence[Sequence[int]], longest: int | None = None) -> Tensor:
    """(rows, longest), filled up with -1."""
    longest = max(map(len, rows)) if longest is None else longest
    filled = [[*row, *[-1] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(len(rows), longest)
