"""Where in a text an answer stands: a head that finds the first and the last of its tokens."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.heads import ReaderHead
from regard.models.interface import Reader
from regard.nn.layout import Layout


class Spans(NamedTuple):
    """The best answer of each sequence (B), and how probable it is among all that the sequence could give."""

    first: Tensor  # its first row, counted within the sequence
    last: Tensor
    odds: Tensor  # log P(this answer) - log P(no answer); -inf where no answer is possible
    probability: Tensor
    none: Tensor  # the probability that the sequence holds no answer


class SpanFinder(ReaderHead):
    """P(begin = i) = softmax_i(S · h_i), P(end = j) = softmax_j(E · h_j)  (Devlin et al. 2019, section 4.2)

    The first row of a sequence, <s>, stands for "no answer here" (section 4.3).
    """

    def __init__(self, reader: Reader, dropout: float):
        super().__init__(reader)
        self.dropout = nn.Dropout(dropout)
        self.to_ends = nn.Linear(reader.d_out, 2)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> the logits of being where an answer begins, and where it ends (N, 2)."""
        return self.to_ends(self.dropout(self.reader(tokens, layout)))

    def nats(self, tokens: Tensor, layout: Layout, spans: Tensor) -> Tensor:
        """-log P of where every answer begins and of where it ends; `spans` (B, 2) are rows within the sequences."""
        padded = layout.pad(self(tokens, layout).float())
        is_token = layout.padded_positions() < layout.lengths[:, None]
        logits = torch.where(is_token[:, None], padded.transpose(1, 2), -torch.inf)  # B 2 T
        return F.cross_entropy(logits.flatten(0, 1), spans.flatten(), reduction="sum")

    def find(self, tokens: Tensor, layout: Layout, offset: Tensor, n_context: Tensor, longest: int) -> Spans:
        """The best of all spans of 1 to `longest` tokens that lie in the context, `n_context` rows from `offset` on."""
        begin, end = layout.pad(self(tokens, layout).float()).unbind(-1)  # B T each
        rows = torch.arange(layout.longest, device=begin.device)
        inside = (rows >= offset[:, None]) & (rows < (offset + n_context)[:, None])
        n_more = rows - rows[:, None]  # from where a span begins to where it ends
        allowed = inside[:, :, None] & inside[:, None, :] & (n_more >= 0) & (n_more < longest)
        scores = torch.where(allowed, begin[:, :, None] + end[:, None, :], -torch.inf).flatten(1)
        no_answer = begin[:, 0] + end[:, 0]
        total = torch.logaddexp(scores.logsumexp(1), no_answer)
        best, place = scores.max(1)
        first, last = place // layout.longest, place % layout.longest
        return Spans(first, last, best - no_answer, (best - total).exp(), (no_answer - total).exp())
