"""Second order with skips: every earlier word votes together with the last, and a mask keeps the votes that inform."""

import math

import torch
from torch import Tensor

from regard.models.chain import Chain, Growing, Smoothing, Transitions, find
from regard.models.counting import Counted, Counter, SkipPairs

ENTRIES = 1 << 22  # counts looked through at once


class Skips(Growing):
    """P(w_t) = Σ_j m_j P(w_t | w_j, w_{t-1}) / Σ_j m_j over the words w_j before the last, w_{t-1}.

    Without a mask m_j is 1 for each pair that was ever seen.  The mask weighs a pair by the bits that it gives about
    the next word beyond those of the last word alone, and crosses out those of `informative` bits or less.  If no pair
    is left, the last word votes alone.  Brandon Rohrer, "Transformers from Scratch" (2021), where the mask is given.
    """

    gains: Tensor  # C, the bits of each pair

    def __init__(self, vocab_size: int, reach: int, informative: float | None, smoothing: Smoothing):
        super().__init__()
        self.vocab_size, self.reach, self.informative = vocab_size, reach, informative
        self.window = reach and reach + 1  # how many words are read; 0: all
        self.alone = Chain(vocab_size, 1, smoothing)
        self.pairs = Transitions(vocab_size, smoothing)
        self.register_buffer("gains", torch.zeros(0))

    def counters(self) -> list[Counter]:
        return [*self.alone.counters(), SkipPairs(self.vocab_size, self.reach)]

    def take(self, counted: list[Counted]) -> None:
        *chain, pairs = counted
        self.alone.take(chain)
        self.pairs.take(pairs)
        self.pairs.smooth()
        self.gains = self.learn_gains()

    def smooth(self) -> None:
        """Work out what is not saved."""
        self.alone.smooth()
        self.pairs.smooth()

    def learn_gains(self) -> Tensor:
        """Σ_w P(w | pair) log2 (P(w | pair) / P(w | last word)): how far a vote is from the last word's own.

        Both are smoothed, so a pair seen once or twice is not believed much.
        """
        pairs = self.pairs
        gains, unseen = torch.zeros_like(pairs.totals), torch.ones_like(pairs.totals)
        for entry in torch.arange(len(pairs.keys), device=pairs.keys.device).split(ENTRIES):
            context = torch.searchsorted(pairs.begins, entry, right=True) - 1
            last, word = pairs.contexts[context] // self.vocab_size, pairs.keys[entry] % self.vocab_size
            alone = self.alone.probabilities(last[:, None], word).double()
            p = pairs.kept_at(entry, context) + pairs.left[context] * alone
            gains.index_add_(0, context, p * torch.log2(p / alone))
            unseen.index_add_(0, context, -alone)
        # Words that never followed the pair have left · P(w | last word): one logarithm for all of them.
        left = pairs.left.double()
        return (gains + unseen.clamp(min=0) * torch.xlogy(left, left) / math.log(2)).float()

    def contexts(self, window: Tensor) -> Tensor:
        """The pair that each word but the last makes with the last, as a key: (R, W - 1); -1 before the text begins."""
        earlier, last = window[:, :-1], window[:, -1:]
        return torch.where(earlier < self.vocab_size, last * self.vocab_size + earlier, -1)

    def mask(self, window: Tensor) -> Tensor:
        """What the pair of each word but the last counts for: (R, W - 1); 0 where it is crossed out."""
        place = find(self.pairs.contexts, self.contexts(window))
        if self.informative is None:
            return (place >= 0).float()
        gains = self.gains[place]
        return torch.where((place >= 0) & (gains > self.informative), gains, 0)

    def weights(self, window: Tensor) -> Tensor:
        """The share of each word's vote: (R, W), rows sum to one.  The last column is the last word alone."""
        mask = self.mask(window)
        total = mask.sum(1, keepdim=True)
        return torch.cat([mask / torch.where(total > 0, total, 1), (total == 0).float()], 1)

    def probabilities(self, window: Tensor, words: Tensor) -> Tensor:
        """P(word | window): (R,)."""
        alone = self.alone.probabilities(window[:, -1:], words)[:, None]
        votes = self.pairs.probabilities(self.contexts(window), words[:, None], alone)
        return (self.weights(window) * torch.cat([votes, alone], 1)).sum(1)

    def rows(self, window: Tensor) -> Tensor:
        """P(· | window): (R, V).  The votes stay sparse: only words that follow a pair get one."""
        weights, contexts = self.weights(window), self.contexts(window)
        share = weights[:, -1:] + (weights[:, :-1] * self.pairs.left_of(contexts)).sum(1, keepdim=True)
        rows = share * self.alone.rows(window[:, -1:])
        owner, entry, place = self.pairs.following(torch.where(weights[:, :-1] > 0, contexts, -1).flatten())
        votes = weights[:, :-1].flatten()[owner] * self.pairs.kept_at(entry, place)
        where = owner // contexts.shape[1] * self.vocab_size + self.pairs.keys[entry] % self.vocab_size
        return rows.view(-1).index_add_(0, where, votes).view(rows.shape)

    def votes(self, window: Tensor) -> Tensor:
        """What each word of one window (W,) votes for: (W, V).  weights @ votes is the prediction."""
        alone = self.alone.rows(window[None, -1:])
        pairs = self.pairs.rows(self.contexts(window[None])[0], alone.expand(len(window) - 1, -1))
        return torch.cat([pairs, alone])
