"""The chain: the next word depends on the last n words, by counting n-grams (Markov 1913, Shannon 1948)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.counting import Counted, Counter, NGrams
from regard.models.transitions import Smoothing, Transitions


class Chain(nn.Module):
    """P(w_t | w_{t-n} … w_{t-1}), each context smoothed by the one that is a word shorter, the shortest by 1 / V.

    A window is the last words of a text, (R, W), oldest first; word V, the boundary, stands before a text begins.
    """

    levels: Sequence[Transitions]  # of 0, 1, .. n words; a context is its place among the keys of the level before

    def __init__(self, vocab_size: int, order: int, smoothing: Smoothing):
        super().__init__()
        self.vocab_size, self.order, self.smoothing = vocab_size, order, smoothing
        self.width = vocab_size + 1
        self.levels = nn.ModuleList(  # type: ignore[assignment]
            Transitions(self.width, smoothing) for _ in range(order + 1)
        )

    @property
    def window(self) -> int:
        return self.order

    def counters(self) -> list[Counter]:
        return [NGrams(self.vocab_size, self.order)]

    def take(self, counted: list[Counted]) -> None:
        for level, columns in zip(self.levels, counted, strict=True):
            level.take(columns)
        self.smooth()

    def smooth(self) -> None:
        """Work out what is not saved."""
        suffixes = self.suffixes() if self.smoothing.by_variety else []
        for k, level in enumerate(self.levels):
            if self.smoothing.by_variety and k < self.order:
                seen = suffixes[k + 1][self.levels[k + 1].counts > 0]
                level.smooth(torch.bincount(seen, minlength=len(level.keys)))
            else:
                level.smooth()

    def suffixes(self) -> list[Tensor]:
        """For each n-gram of each level, the place of what remains without its first word, one level below."""
        found = [torch.zeros_like(self.levels[0].keys)]
        for level, shorter in zip(self.levels[1:], self.levels, strict=False):
            parents, words = level.keys // self.width, level.keys % self.width
            found.append(shorter.find(found[-1][parents], words))
        return found

    def contexts(self, window: Tensor, k: int) -> Tensor:
        """The place of the last k words among the k-grams: (R,); -1 where never seen."""
        if k == 0:
            return torch.zeros_like(window[:, 0])
        first, *others = window[:, window.shape[1] - k :].unbind(1)
        for level, word in zip(self.levels[1:], others, strict=False):
            first = level.find(first, word)
        return first

    def probabilities(self, window: Tensor, words: Tensor) -> Tensor:
        """P(word | window): (R,)."""
        p = torch.full(words.shape, 1 / self.vocab_size, device=words.device)
        for k, level in enumerate(self.levels):
            p = level.probabilities(self.contexts(window, k), words, p)
        return p

    def rows(self, window: Tensor) -> Tensor:
        """P(· | window): (R, V)."""
        uniform = torch.full((1, self.width), 1 / self.vocab_size, device=window.device)
        uniform[:, -1] = 0  # nobody predicts the boundary
        rows = self.levels[0].rows(self.contexts(window[:1], 0), uniform).expand(len(window), -1)  # one for all
        for k, level in enumerate(self.levels[1:], start=1):
            rows = level.rows(self.contexts(window, k), rows)
        return rows[:, :-1]

    def table(self, contexts: Tensor) -> Tensor:
        """Rows of the plain transition table, not smoothed: contexts (R, k) -> (R, V); zeros where nothing followed."""
        level = self.levels[contexts.shape[1]]
        owner, entry, _ = level.following(self.contexts(F.pad(contexts, (1, 0)), contexts.shape[1]))
        rows = torch.zeros(len(contexts), self.width, device=contexts.device)
        rows.index_put_((owner, level.keys[entry] % self.width), level.counts[entry].float())
        return rows[:, :-1] / rows.sum(-1, keepdim=True).clamp(min=1)
