"""How to decode: the settings of every search."""

from collections.abc import Sized
from dataclasses import dataclass, replace

from regard.checks import at_least, at_most, not_negative, one_of, positive_share
from regard.errors import ConfigError

WEIGHTS = ("float32", "bfloat16", "int8")
COUNTED = ("written", "start", "prompt")


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    beam: int = 1  # hypotheses kept at each step; 1: greedy
    n_best: int = 1  # answers per line: at most `beam`, or any number of samples; `regard translate --json` shows them
    length_penalty: float = 0.6  # α in score = log P(Y) / ((5 + |Y|) / 6)^α (Wu et al. 2016); 0: none

    sample: bool = False  # draw from the distribution instead of searching for the best; needs `beam = 1`
    temperature: float = 1.0  # for sampling: sharper below 1, flatter above
    top_k: int = 0  # for sampling: only the k most probable tokens; 0: all
    top_p: float = 1.0  # for sampling: only the fewest tokens that together have this probability
    min_p: float = 0.0  # for sampling: only tokens with at least this share of the best one's probability
    seed: int = 0  # for sampling; a line gets the same draws whatever is decoded beside it

    repetition_penalty: float = 1.0  # above 1: tokens already written become less probable (Keskar et al. 2019)
    block_ngrams: int = 0  # n: no n tokens in a row come twice; 0: off
    # what repetition_penalty, block_ngrams and never_in_a_row look at: `written`, the tokens written so far; `start`,
    # the start token too; `prompt`, all that was read too (as transformers counts)
    counted: str = "written"
    min_length: int = 0  # fewest tokens before the end
    first: tuple[int, ...] = ()  # token ids that every answer begins with, such as the <s> of an imported summarizer
    never: tuple[int, ...] = ()  # ids of tokens that are not written, such as the padding of an imported model
    never_first: tuple[int, ...] = ()  # token ids that no answer begins with (after `first`)
    never_in_a_row: tuple[tuple[int, ...], ...] = ()  # rows of token ids that are not written, such as `[[5, 9]]`
    ends: tuple[int, ...] = ()  # further token ids that end an answer

    # The limit, with the end counted, is length_ratio · |prompt| + extra_length ("input length + 50" in the paper).
    length_ratio: float = 1.0  # with extra_length, the limit of an answer: length_ratio × tokens read + extra_length
    extra_length: int = 50  # the paper: input length + 50
    max_length: int = 0  # and never more than this; 0: no other limit (but a run stays within its model's positions)

    # how the weights are read: `float32`; or `bfloat16`, faster on a GPU, or `int8`, faster on a CPU, which change
    # answers a little
    weights: str = "float32"
    # on a CPU, of runs that translate: only so many of the most frequent words, and those that the words of a line were
    # translated by in training, may be written; faster, and some answers change; 0: all words may
    shortlist: int = 0
    draft_tokens: int = 4  # with a draft (`--draft`): tokens that it proposes at a time; answers stay the model's own
    batch_tokens: int = 8192  # lines decoded together, times the longest limit among them

    def __post_init__(self) -> None:
        at_least(self, 1, "beam", "n_best", "extra_length", "draft_tokens", "batch_tokens")
        not_negative(
            self, "length_penalty", "top_k", "block_ngrams", "min_length", "length_ratio", "max_length", "shortlist"
        )
        at_most(self, 10, "length_penalty")  # a power of the length
        at_most(self, 1_000_000, "length_ratio")
        at_least(self, 1e-6, "repetition_penalty")  # beyond these two, scores overflow
        at_most(self, 1_000_000, "repetition_penalty")
        if not self.temperature > 0:
            raise ConfigError(f"temperature must be above 0 (for no sampling: sample = false), got {self.temperature}")
        positive_share(self, "top_p")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"min_p must be at least 0 and at most 1, got {self.min_p}")
        one_of(self, COUNTED, "counted")
        one_of(self, WEIGHTS, "weights")
        for name, tokens in self.tokens.items():
            if any(token < 0 for token in tokens):
                raise ConfigError(f"{name} lists ids of tokens, from 0; got {list(tokens)}")
        if not all(self.never_in_a_row):
            raise ConfigError("never_in_a_row lists an empty row of tokens; leave it out")
        if self.sample and self.beam > 1:
            raise ConfigError(f"sample and beam exclude each other: set beam = 1, got {self.beam}")
        if not self.sample and self.n_best > self.beam:
            raise ConfigError(f"n_best = {self.n_best} needs a beam of at least {self.n_best}, got {self.beam}")

    @property
    def tokens(self) -> dict[str, tuple[int, ...]]:
        """The tokens that each setting names."""
        rows = tuple(token for row in self.never_in_a_row for token in row)
        named = {"first": self.first, "never": self.never, "never_first": self.never_first, "never_in_a_row": rows}
        return {**named, "ends": self.ends}

    @property
    def exact(self) -> "DecodingConfig":
        """The same without what trades answers for speed."""
        return replace(self, weights="float32", shortlist=0)

    def limit(self, prompt: Sized) -> int:
        limit = int(self.length_ratio * len(prompt)) + self.extra_length
        return min(limit, self.max_length) if self.max_length else limit

    def within(self, room: int) -> "DecodingConfig":
        """The same for a model that has positions for `room` tokens."""
        return replace(self, max_length=min(self.max_length or room, room))


SAMPLERS = ("temperature", "top_k", "top_p", "min_p")  # what only sampling reads
