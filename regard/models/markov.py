"""Markov models: what comes next, by counting.  Chains of any order; second order with skips; with a learned mask."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import at_least, not_negative
from regard.choose import choose
from regard.errors import ConfigError, RegardError
from regard.models.chain import SMOOTHINGS, Chain
from regard.models.config import ModelConfig
from regard.models.cost import Cost
from regard.models.counting import CountedText, CountReport, count
from regard.models.skips import Skips
from regard.models.writing import TextWriter
from regard.nn.layout import Layout, Prompt, Ragged
from regard.nn.state import RowState

ROWS = 1 << 15  # windows scored at once
CELLS = 1 << 24  # probabilities of whole rows that are there at once
MOST_WORDS = 1 << 21  # three words of a skip pair share 63 bits


@dataclass(frozen=True, kw_only=True)
class MarkovConfig(ModelConfig):
    kind: str = "chain"  # `chain`, `skips` (pairs of words vote) or `masked` (only the informative pairs vote)
    order: int = 2  # how many words the next one depends on
    reach: int = 8  # for `skips` and `masked`: how far before the last word a word may vote; 0: the whole sequence
    informative: float = 0.2  # for `masked`: bits of information that a pair must give to have a vote
    smoothing: str = "kneser_ney"  # `kneser_ney` (interpolated, modified), or `none`: what never occurred is impossible

    def __post_init__(self) -> None:
        choose(KINDS, self.kind, "kind of Markov model")
        choose(SMOOTHINGS, self.smoothing, "smoothing")
        at_least(self, 1, "vocab_size", "order")
        not_negative(self, "reach", "informative")
        if self.kind != "chain" and self.order != 2:
            raise ConfigError(f"kind {self.kind} pairs one word with the last: order must be 2, got {self.order}")
        if self.kind != "chain" and self.vocab_size > MOST_WORDS:
            raise ConfigError(f"skip pairs take at most {MOST_WORDS:,} words, got vocab_size {self.vocab_size:,}")


KINDS: dict[str, Callable[[MarkovConfig], Chain | Skips]] = {
    "chain": lambda c: Chain(c.vocab_size, c.order, SMOOTHINGS[c.smoothing]),
    "skips": lambda c: Skips(c.vocab_size, c.reach, None, SMOOTHINGS[c.smoothing]),
    "masked": lambda c: Skips(c.vocab_size, c.reach, c.informative, SMOOTHINGS[c.smoothing]),
}


class Markov(TextWriter["MarkovState", "LastWords"]):
    """A language model without a parameter: its counts are buffers, and `count` is all its training.

    A window is the last words of a text, (R, W), oldest first; word V, the boundary, stands before a text begins.
    """

    role = "language"
    is_counted = True
    config: MarkovConfig

    def __init__(self, config: MarkovConfig):
        super().__init__()
        self.config = config
        self.predictor = KINDS[config.kind](config)
        self.register_load_state_dict_post_hook(lambda module, _: module.predictor.smooth())

    def count(self, texts: Iterable[CountedText]) -> CountReport:
        """One pass over texts: pairs of tokens (N,) and the length of each sequence.  What was counted before is gone.

        A sequence's first token is given, not predicted: begin it with `<s>` to learn how texts begin.
        """
        begin = time.perf_counter()
        device = self.device
        counters = self.predictor.counters()
        n_tokens = count(texts, self.config.vocab_size, counters, self.config.order + 1)
        self.predictor.take([counted for counter in counters for counted in counter.total()])
        self.to(device)
        return CountReport(n_tokens=n_tokens, n_counts=self.n_counts, seconds=time.perf_counter() - begin)

    @property
    def n_counts(self) -> int:
        return sum(len(buffer) for name, buffer in self.named_buffers() if name.endswith(".counts"))

    def cost(self, length: int) -> Cost:
        return Cost(0.0, "counts are looked up")

    def log_probs(self, tokens: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        """log P(labels[i] | its sequence up to and with tokens[i]), in nats: (N,)."""
        return self.log_probs_after(self.windows(tokens, layout), labels)

    def log_probs_after(self, windows: Tensor, labels: Tensor) -> Tensor:
        """log P(label | window), of N windows (N, W)."""
        parts = zip(windows.split(ROWS), labels.split(ROWS), strict=True)
        return torch.cat([self.predictor.probabilities(window, words).log() for window, words in parts])

    def nats(self, tokens: Tensor, labels: Tensor, layout: Layout) -> Tensor:
        return -self.log_probs(tokens, labels, layout).sum()

    def carried_nats(
        self, tokens: Tensor, labels: Tensor, layout: Layout, state: "LastWords | None"
    ) -> tuple[Tensor, "LastWords"]:
        """For texts that all have one length."""
        self.check(tokens)
        width = self.predictor.window
        if not width:
            raise RegardError("votes of the whole sequence have no end that could be carried on: set model.reach")
        boundary = tokens.new_full((layout.n_sequences, width), self.config.vocab_size)
        texts = torch.cat([boundary if state is None else state.words, layout.pad(tokens)], 1)
        windows = texts.unfold(1, width, 1)[:, 1:].flatten(0, 1)  # N W
        return -self.log_probs_after(windows, labels).sum(), LastWords(texts[:, -width:])

    def guesses(self, tokens: Tensor, layout: Layout) -> Tensor:
        parts = self.windows(tokens, layout).split(max(1, CELLS // self.config.vocab_size))
        return torch.cat([self.predictor.rows(window).argmax(1) for window in parts])

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """log P of every next word after each token: (N, V)."""
        return self.predictor.rows(self.windows(tokens, layout)).log()

    def windows(self, tokens: Tensor, layout: Layout) -> Tensor:
        self.check(tokens)
        width = self.predictor.window or max(layout.longest, 1)
        back = torch.arange(width - 1, -1, -1, device=tokens.device)
        places = layout.positions[:, None] - back  # within the sequence
        rows = torch.arange(len(tokens), device=tokens.device)[:, None] - back
        return torch.where(places < 0, self.config.vocab_size, tokens[rows.clamp(min=0)])

    def check(self, tokens: Tensor) -> None:
        if not self.n_counts:
            raise RegardError("this Markov model has counted nothing yet: train it first")
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.config.vocab_size:
            raise RegardError(f"a token is outside of the vocabulary, which has {self.config.vocab_size}")

    # What a skip model looks at.

    @property
    def skips(self) -> Skips:
        if isinstance(self.predictor, Chain):
            raise RegardError('a chain has no votes: only kind "skips" and "masked" have')
        return self.predictor

    def votes(self, tokens: Tensor) -> Tensor:
        """What each token (T,) votes for together with the last: (T, V).  The last one votes alone."""
        return self.skips.votes(tokens)

    def weights(self, tokens: Tensor) -> Tensor:
        """Row t: how much the vote of each token counts for what follows token t, (T, T): attention."""
        window = self.windows(tokens, Ragged([len(tokens)], tokens.device))
        weights = self.skips.weights(window)
        length, width = window.shape
        place = torch.arange(length, device=tokens.device)[:, None] + torch.arange(width, device=tokens.device)
        out = weights.new_zeros(length, length + width - 1)
        return out.scatter_(1, place, weights)[:, width - 1 :]

    # Decoding: the interface of `regard.decoding.interface`.

    reads_on = can_forget = True

    def start(
        self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int = 256
    ) -> tuple["MarkovState", Tensor]:
        """A text goes on from its prompt; where that is empty, it begins with `begin`."""
        read = [[*prompt] or [begin] for prompt in prompts]
        self.check(torch.tensor([token for text in read for token in text], dtype=torch.long))
        given = torch.tensor([len(text) for text in read])
        texts = torch.full((len(read), int(given.max()) + room), self.config.vocab_size)
        for row, text in zip(texts, read, strict=True):
            row[: len(text)] = torch.tensor(text, dtype=torch.long)
        state = MarkovState(texts.to(self.device), given.to(self.device))
        first = self.next_words(state, 1)[:, 0]
        state.select(torch.arange(len(read), device=self.device).repeat_interleave(copies))
        return state, first

    def step(self, tokens: Tensor, state: "MarkovState") -> Tensor:
        """The next tokens of each row (rows, n) -> log P of the word after each of them (rows, n, V)."""
        for column in tokens.unbind(1):
            state.write(column)
        return self.next_words(state, tokens.shape[1])

    def next_words(self, state: "MarkovState", n: int) -> Tensor:
        """log P of the word after each of the last n: (rows, n, V)."""
        windows = state.windows(self.predictor.window, self.config.vocab_size, n)
        return self.predictor.rows(windows.flatten(0, 1)).log().unflatten(0, windows.shape[:2])


@dataclass
class LastWords:
    """All that a chain remembers of the texts that it has read."""

    words: Tensor  # rows, W

    def select(self, rows: Tensor) -> None:
        self.words = self.words[rows]


class MarkovState(RowState):
    """The texts so far: the prompts, then all tokens that were stepped."""

    def __init__(self, texts: Tensor, given: Tensor):
        self.texts = texts  # rows, room
        self.given = given  # rows, the prompts' lengths
        self.lengths = torch.zeros_like(given)

    def write(self, column: Tensor) -> None:
        self.texts.scatter_(1, (self.given + self.lengths)[:, None], column[:, None])
        self.lengths = self.lengths + 1

    def windows(self, width: int, boundary: int, n: int) -> Tensor:
        """The last words before each of the next words, n of them: (rows, n, W)."""
        ends = (self.given + self.lengths)[:, None] - torch.arange(n - 1, -1, -1, device=self.given.device)
        width = width or max(int(ends.max()), 1)
        places = ends[:, :, None] - torch.arange(width, 0, -1, device=ends.device)
        words = self.texts.gather(1, places.clamp(min=0).flatten(1)).view(places.shape)
        return torch.where(places < 0, boundary, words)

    def select(self, rows: Tensor) -> None:
        self.texts, self.given, self.lengths = self.texts[rows], self.given[rows], self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)

    def join(self, other: "MarkovState") -> None:
        room = max(self.texts.shape[1], other.texts.shape[1])
        texts = [F.pad(state.texts, (0, room - state.texts.shape[1])) for state in (self, other)]
        self.texts = torch.cat(texts)
        self.given = torch.cat([self.given, other.given])
        self.lengths = torch.cat([self.lengths, other.lengths])
