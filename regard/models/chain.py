"""The chain: the next word depends on the last n words, by counting n-grams (Markov 1913, Shannon 1948).

For every length of context there is a sparse table of transitions to the next word, smoothed by the shorter one's.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.counting import Counted, Counter, NGrams

BIG = 3  # counts from here on share one discount


def modified_discounts(counts: Tensor) -> Tensor:
    """D_r = r − (r + 1) Y n_{r+1} / n_r with Y = n_1 / (n_1 + 2 n_2), for counts of 1, 2 and 3 or more.

    Chen and Goodman 1998, equation 26.  Where a text is too small to estimate one, it is r / 2.
    """
    n = torch.bincount(counts.clamp(max=BIG + 2), minlength=BIG + 3)[: BIG + 2].tolist()  # n_r of r = 0 .. 4
    discounts = [0.0]
    for r in range(1, BIG + 1):
        estimate = r - (r + 1) * n[1] / (n[1] + 2 * n[2]) * n[r + 1] / n[r] if n[1] and n[r] else 0.0
        discounts.append(estimate if 0 < estimate < r else r / 2)
    return torch.tensor(discounts)


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    discounts: Callable[[Tensor], Tensor]  # what counts of 0, 1, 2 and 3 or more give up
    by_variety: bool  # a shorter context counts the different words before an n-gram, not how often it came


SMOOTHINGS = {
    "none": Smoothing(discounts=lambda counts: torch.zeros(BIG + 1), by_variety=False),
    "kneser_ney": Smoothing(discounts=modified_discounts, by_variety=True),
}


class Growing(nn.Module):
    """Its saved buffers are as long as what was counted, so they take the size of what is loaded."""

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        for name, old in self._buffers.items():
            if old is not None and prefix + name in state_dict:
                self._buffers[name] = old.new_empty(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Transitions(Growing):
    """P(w | c) = (a(c, w) − D(a(c, w))) / Σ_w a(c, w) + left(c) · lower(w): interpolated Kneser-Ney.

    a are counts, D their discounts, and left(c) is what the discounts of a context took, so rows sum to one.  A context
    that was never seen leaves everything to `lower`.  Chen and Goodman, "An Empirical Study of Smoothing Techniques for
    Language Modeling" (1998).  A key is context · width + word.
    """

    keys: Tensor  # E, sorted
    counts: Tensor  # E, how often each came
    contexts: Tensor  # C, sorted
    begins: Tensor  # C + 1, where the words of each context lie in `keys`
    used: Tensor  # E, what stands for a(c, w): the counts, or a variety
    totals: Tensor  # C
    left: Tensor  # C
    discounts: Tensor  # for counts 0, 1, 2, 3 or more

    def __init__(self, width: int, smoothing: Smoothing):
        super().__init__()
        self.width = width
        self.smoothing = smoothing
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int))
        for name in ("contexts", "begins", "used", "totals", "left", "discounts"):
            self.register_buffer(name, torch.zeros(0), persistent=False)

    def take(self, counted: Counted) -> None:
        self.keys, self.counts = (torch.from_numpy(column) for column in counted)

    def smooth(self, variety: Tensor | None = None) -> None:
        """Work out what is not saved.  `variety` stands in for the counts of a shorter context."""
        self.used = self.counts if variety is None else variety
        self.contexts, sizes = torch.unique_consecutive(self.keys // self.width, return_counts=True)
        self.begins = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        self.discounts = self.smoothing.discounts(self.used).to(self.keys.device)
        taken = self.discounts[self.used.clamp(max=BIG)]
        self.totals = torch.segment_reduce(self.used.double(), "sum", lengths=sizes)
        self.left = (torch.segment_reduce(taken.double(), "sum", lengths=sizes) / self.totals).float()
        self.left[self.totals == 0] = 1  # a context that nothing followed

    def find(self, contexts: Tensor, words: Tensor) -> Tensor:
        """The place of each (context, word) among the keys; -1 for one never seen."""
        return find(self.keys, contexts * self.width + words)

    def left_of(self, contexts: Tensor) -> Tensor:
        place = find(self.contexts, contexts)
        return torch.where(place < 0, 1, self.left[place])

    def kept_at(self, entry: Tensor, context: Tensor) -> Tensor:
        """The first part of the equation."""
        counts = self.used[entry]
        return ((counts - self.discounts[counts.clamp(max=BIG)]) / self.totals[context].clamp(min=1)).float()

    def probabilities(self, contexts: Tensor, words: Tensor, lower: Tensor) -> Tensor:
        """P(word | context) one by one; `lower` are the shorter context's."""
        entry, place = self.find(contexts, words), find(self.contexts, contexts)
        kept = torch.where(entry < 0, 0, self.kept_at(entry, place))
        return kept + self.left_of(contexts) * lower

    def rows(self, contexts: Tensor, lower: Tensor) -> Tensor:
        """P(· | context) for contexts (R,), from the shorter contexts' rows (R, width)."""
        rows = self.left_of(contexts)[:, None] * lower
        owner, entry, place = self.following(contexts)
        where = owner * self.width + self.keys[entry] % self.width
        return rows.view(-1).index_add_(0, where, self.kept_at(entry, place)).view(rows.shape)

    def following(self, contexts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All entries of these contexts (R,): whose each is (0 .. R-1), its place in keys, its context's place."""
        place = find(self.contexts, contexts)
        sizes = torch.where(place < 0, 0, self.begins[place + 1] - self.begins[place])
        owner = torch.arange(len(contexts), device=contexts.device).repeat_interleave(sizes)
        within = torch.arange(len(owner), device=contexts.device) - (sizes.cumsum(0) - sizes)[owner]
        return owner, self.begins[place][owner] + within, place[owner]


def find(keys: Tensor, wanted: Tensor) -> Tensor:
    """The place of each wanted key among sorted keys; -1 where it is not."""
    place = torch.searchsorted(keys, wanted.contiguous()).clamp(max=len(keys) - 1)
    return torch.where(keys[place] == wanted, place, -1)


class Chain(nn.Module):
    """P(w_t | w_{t-n} … w_{t-1}), each context smoothed by the one that is a word shorter, the shortest by 1 / V.

    A window is the last words of a text, (R, W), oldest first; word V, the boundary, stands before a text begins.
    """

    levels: Sequence[Transitions]  # of 0, 1, .. n words; a context is its place among the keys of the level before

    def __init__(self, vocab_size: int, order: int, smoothing: Smoothing):
        super().__init__()
        self.vocab_size, self.order, self.window, self.smoothing = vocab_size, order, order, smoothing
        self.width = vocab_size + 1
        self.levels = nn.ModuleList(  # type: ignore[assignment]
            Transitions(self.width, smoothing) for _ in range(order + 1)
        )

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
        suffixes = [torch.zeros_like(self.levels[0].keys)]
        for level, shorter in zip(self.levels[1:], self.levels, strict=False):
            parents, words = level.keys // self.width, level.keys % self.width
            suffixes.append(shorter.find(suffixes[-1][parents], words))
        return suffixes

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
        uniform[:, -1] = 0  # the boundary is never predicted
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
