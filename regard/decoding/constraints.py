"""What a hypothesis may not say.

A block makes a token impossible and leaves the probabilities of the others as the model gave them, so that
hypotheses keep the model's own log-probability.  The repetition penalty changes the model instead: it acts on
the logits, before they are normalized.
"""

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution
from regard.decoding.interface import Ids
from regard.errors import ConfigError


def repetition_penalty(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """What the history (rows, t) holds gets logit / penalty, or logit · penalty if below 0.  Keskar et al. 2019."""
    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen > 0, seen / penalty, seen * penalty))


def block_ngrams(log_probs: Tensor, history: Tensor, n: int) -> Tensor:
    """No token that would complete an n-gram which the history (rows, t) already holds.  Paulus et al. 2017."""
    if history.shape[1] < n:
        return log_probs
    ngrams = history.unfold(1, n, 1)  # (rows, t - n + 1, n)
    context = history[:, history.shape[1] - n + 1 :]  # (rows, n - 1)
    would_repeat = (ngrams[..., :-1] == context[:, None]).all(-1)
    tokens = ngrams[..., -1]
    blocked = log_probs.gather(1, tokens).masked_fill(would_repeat, -torch.inf)
    return log_probs.scatter_reduce(1, tokens, blocked, "amin")


def block_end(log_probs: Tensor, end_id: int) -> Tensor:
    """No end, unless nothing else is left."""
    blocked = log_probs.index_fill(1, torch.tensor([end_id], device=log_probs.device), -torch.inf)
    return torch.where(blocked.amax(1, keepdim=True) == -torch.inf, log_probs, blocked)


def force(log_probs: Tensor, free: Tensor, tokens: Tensor) -> Tensor:
    """Only tokens[i] in row i, with its log-probability; where tokens[i] is -1, row i of `free`."""
    ids = torch.arange(log_probs.shape[1], device=log_probs.device)
    forced = log_probs.masked_fill(ids != tokens[:, None], -torch.inf)
    return torch.where(tokens[:, None] < 0, free, forced)


class Constraints:
    """All constraints of a search.  A forced prefix wins over everything else."""

    def __init__(self, config: DecodingConfig, prefixes: Ids, end_id: int) -> None:
        self.config, self.end_id = config, end_id
        self.n_forced = max(map(len, prefixes), default=0)
        self.prefixes = torch.tensor([prefix + [-1] * (self.n_forced - len(prefix)) for prefix in prefixes])

    @property
    def need_history(self) -> bool:
        return self.config.repetition_penalty != 1 or self.config.block_ngrams > 0

    def apply(self, logits: Tensor, history: Tensor, t: int, prompts: Tensor) -> Distribution:
        """history (rows, t): the tokens so far, if needed; prompts (active,): whose rows these are, in equal shares."""
        forcing, too_short = t < self.n_forced, t < self.config.min_length
        if not (forcing or too_short or self.need_history or self.config.never):
            return Distribution(logits)
        if self.config.repetition_penalty != 1:
            logits = repetition_penalty(logits, history, self.config.repetition_penalty)
        log_probs = free = logits.log_softmax(-1)
        if self.config.never:
            if max(self.config.never) >= free.shape[1]:
                raise ConfigError(f"never lists the token {max(self.config.never)}; the model has {free.shape[1]:,}")
            free = free.index_fill(1, torch.tensor(self.config.never, device=free.device), -torch.inf)
        if self.config.block_ngrams:
            free = block_ngrams(free, history, self.config.block_ngrams)
        if too_short:
            free = block_end(free, self.end_id)
        if forcing:
            tokens = self.prefixes[:, t].to(logits.device)[prompts]
            free = force(log_probs, free, tokens.repeat_interleave(len(logits) // len(prompts)))
        return Distribution(free, normalized=True)
