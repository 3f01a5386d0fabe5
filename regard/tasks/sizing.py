"""How a recipe is sized to data of one's own: what a task proposes, from a small model to a large one.

A task knows its data: it proposes settings, models from small to large, and how often the data are worth reading.  How
fast this computer is it does not know: `regard.training.proposal` measures that, and chooses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from regard.config import Settings
from regard.data.config import DataConfig
from regard.errors import ConfigError
from regard.tasks.setup import TaskConfig

RecipeTables = dict[str, Settings]  # of a recipe, by name
N_SAMPLE = 50_000  # texts that are looked at to see how long they are
LONGEST_AVERAGE = 0.999  # of each step, what stays of a running average of weights


@dataclass(frozen=True, kw_only=True)
class Brief:
    """What a recipe is made for."""

    task: TaskConfig
    data: DataConfig  # with the files, columns and shares that were recognized
    is_tuned: bool = False  # the model is another run's, and learns further
    reads_marks: bool = False  # ... and reads <s> text </s>


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One of the sizes, and how long it will learn."""

    size: int  # 0 is the smallest
    steps: int
    epochs: float
    batch_tokens: int
    n_validations: int = 10


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A recipe for given data, but for its size.  Sizes differ in the tables [model] and [training] alone."""

    tables: Callable[[Plan], RecipeTables]
    n_sizes: int
    batch_tokens: tuple[int, int]  # from few, for a short training, to many
    least_epochs: float  # a larger model is worth its time if it can read the data so often
    most_epochs: float  # reading them more often does not help
    remarks: Mapping[str, str] = field(default_factory=dict)  # by "table.setting", what is written beside it
    held_out: str = "by a hash of the texts: no text is in two parts"  # how parts are held out


def no_draft(brief: Brief) -> Draft:
    """What a task says that cannot propose a recipe."""
    raise ConfigError(
        "there is no proposal for a recipe of this task yet: begin with a shipped one (`regard recipes` lists them)"
    )


# What several tasks propose.


def schedule(plan: Plan, learning_rate: float, averaged: bool = True, **more: object) -> Settings:
    """A rise, then half a cosine; validations; and an average over about the last tenth of the steps."""
    every = max(1, round(plan.steps / plan.n_validations))
    ema = {"ema": round(min(LONGEST_AVERAGE, max(0.9, 1 - 10 / plan.steps)), 4)} if averaged else {}
    return {
        "steps": plan.steps,
        "schedule": "cosine",
        "learning_rate": learning_rate,
        "warmup": min(500, plan.steps // 10),
        **ema,
        **more,
        "validate_every": every,
        "save_every": every,
        "keep": 1,
        "log_every": max(1, min(10, every)),
    }


# (d_model, n_heads, n_layers), from small to large, and the characters of text from which on each is worth trying.
TRANSFORMERS = ((64, 2, 2), (128, 4, 2), (192, 4, 3), (256, 4, 4), (384, 6, 6), (512, 8, 6))
ENOUGH = (0, 50_000, 300_000, 1_000_000, 10_000_000, 50_000_000)


def n_transformers(n_characters: int) -> int:
    """How many of the sizes suit so much text."""
    return sum(n_characters >= least for least in ENOUGH)


def transformer(size: int) -> Settings:
    d_model, n_heads, n_layers = TRANSFORMERS[size]
    return {"d_model": d_model, "n_heads": n_heads, "n_layers": n_layers, "d_ff": 4 * d_model}


def dropout_for(plan: Plan) -> float:
    """The more often the same data are read, the more of it."""
    return 0.0 if plan.epochs < 3 else 0.1 if plan.epochs < 8 else 0.2 if plan.epochs < 20 else 0.3


@dataclass(frozen=True)
class TextSizes:
    """How much text there is, and how long the texts are."""

    n_texts: int
    n_words: int
    n_characters: int
    long: int  # words of a text that is longer than 99 of 100

    @classmethod
    def of(cls, texts: Sequence[str]) -> "TextSizes":
        looked_at = texts[:: max(1, len(texts) // N_SAMPLE)]
        words = sorted(len(text.split()) for text in looked_at)
        scale = len(texts) / max(1, len(looked_at))
        n_characters = sum(map(len, looked_at))
        long = words[min(len(words) - 1, int(0.99 * len(words)))] if words else 0
        return cls(len(texts), int(scale * sum(words)), int(scale * n_characters), long)

    def vocabulary(self, words_per_token: int = 90, most: int = 16_000) -> int:
        """Pieces of words that occur often enough to be learned."""
        return in_steps(
            max(500, min(self.n_words // words_per_token, 8000 if self.n_words < 10_000_000 else most)), 100
        )

    def longest(self, tokens_per_word: float = 1.6, least: int = 32, most: int = 512) -> int:
        """Tokens of nearly all texts."""
        return int(min(most, max(least, in_steps(int(self.long * tokens_per_word), 32))))


def in_steps(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step
