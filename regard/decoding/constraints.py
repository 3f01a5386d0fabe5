"""What a hypothesis may not say.

A block makes a token impossible and leaves the probabilities of the others as the model gave them, so that
hypotheses keep the model's own log-probability.  The repetition penalty changes the model instead: it acts on
the logits, before they are normalized.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import Distribution
from regard.decoding.interface import Ids, Prompts
from regard.errors import ConfigError
from regard.nn.layout import Prompt


def repetition_penalty(logits: Tensor, history: Tensor, penalty: float) -> Tensor:
    """What the history (rows, t) holds gets logit / penalty, or logit · penalty if below 0.  Keskar et al. 2019."""
    history = torch.where(history < 0, history[:, -1:], history)  # in place of nothing what is there anyway
    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen > 0, seen / penalty, seen * penalty))


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
    """All constraints of a search.  A forced prefix wins over everything else."""

    def __init__(self, config: DecodingConfig, prefixes: Ids, end_id: int) -> None:
        self.config, self.ends = config, (end_id, *config.ends)
        self.n_forced = max(map(len, prefixes), default=0)
        self.prefixes = torch.tensor([prefix + [-1] * (self.n_forced - len(prefix)) for prefix in prefixes])

    @property
    def need_history(self) -> bool:
        config = self.config
        return config.repetition_penalty != 1 or config.block_ngrams > 0 or len(config.never_in_a_row) > 0

    def beginning(self, prompts: Prompts, start_id: int) -> Tensor:
        """The history (prompts, n) before anything is written; -1 stands before what is shorter than others."""
        beginnings: dict[str, Callable[[Prompt], list[int]]] = {
            "written": lambda prompt: [],
            "start": lambda prompt: [start_id],
            "prompt": list,
        }
        rows = list(map(beginnings[self.config.counted if self.need_history else "written"], prompts))
        longest = max(map(len, rows))
        padded = [[-1] * (longest - len(row)) + row for row in rows]
        return torch.tensor(padded, dtype=torch.long).view(len(prompts), longest)

    def apply(self, logits: Tensor, history: Tensor, t: int, prompts: Tensor) -> Distribution:
        """history (rows, n): the tokens so far, if needed; prompts (active,): whose rows these are, in equal shares."""
        config = self.config
        forcing, too_short = t < self.n_forced, t < config.min_length
        never = config.never + (config.never_first if t == len(config.first) else ())
        if t == 0:
            self.check(logits.shape[1])
        if not (forcing or too_short or self.need_history or never):
            return Distribution(logits)
        if config.repetition_penalty != 1:
            logits = repetition_penalty(logits, history, config.repetition_penalty)
        log_probs = free = logits.log_softmax(-1)
        if never:
            free = block(free, never)
        if config.never_in_a_row:
            free = block_rows(free, history, config.never_in_a_row)
        if config.block_ngrams:
            free = block_ngrams(free, history, config.block_ngrams)
        if too_short:
            free = block_ends(free, self.ends)
        if forcing:
            tokens = self.prefixes[:, t].to(logits.device)[prompts]
            free = force(log_probs, free, tokens.repeat_interleave(len(logits) // len(prompts)))
        return Distribution(free, normalized=True)

    def check(self, n_tokens: int) -> None:
        for name, tokens in self.config.tokens.items():
            if tokens and max(tokens) >= n_tokens:
                raise ConfigError(f"{name} lists the token {max(tokens)}; the model has {n_tokens:,}")
