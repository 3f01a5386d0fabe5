"""The settings that every architecture has, and what is asked of one without such a setting."""

import sys
from dataclasses import dataclass, fields, replace
from typing import Self

from regard.checks import at_most
from regard.nn.grid import GridForm
from regard.nn.series import SeriesForm

LARGEST = 2**31 - 1  # of a size
# Settings that say how weights are learned, not what they mean: a run that begins with another's may have others here.
# The longest length is one of them where no table has a row for each place.
LEARNING_SETTINGS = frozenset(
    {
        "dropout",
        "recurrent_dropout",
        "embedding_dropout",
        "input_dropout",
        "output_dropout",
        "activation_penalty",
        "change_penalty",
        "feature_dropout",
        "head_dropout",
        "locked",
        "embedding_range",
    }
    | {"frozen", "reconstruction", "doubly_stochastic", "memory", "max_length"}
)
MOST = {"n_layers": 300, "n_task_layers": 300, "order": 100}  # of what is made one by one


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of an architecture: it adds its own, and what is asked here of one without such a setting has an
    answer too."""

    vocab_size: int  # left out: taken from the tokenizer

    max_length = sys.maxsize  # tokens of a sequence; where a model has no limit, a number that no text reaches
    d_model = 1  # the width of a row, by which the paper's schedule divides; 1: the model has no rows
    score = "none"  # by which its attention compares; "none": it does not attend
    n_segments = 0  # parts of a sequence that it tells apart; 0: it does not
    tied = True  # whether the embeddings are also the output table, where they are as wide as rows

    def check_sizes(self) -> None:
        """Raise where one is larger than any machine could use: a recipe may come from elsewhere."""
        sizes = [field.name for field in fields(self) if field.type is int]
        for name in sizes:
            at_most(self, MOST.get(name, LARGEST), name)

    @property
    def kept_per_token(self) -> int:
        """Numbers that a state keeps of every token that was read, so as to look back at it."""
        return 0

    @property
    def most_kept(self) -> int:
        """Tokens that a state looks back at, at most."""
        return self.longest_text

    @property
    def longest_text(self) -> int:
        """Tokens that the model reads or writes, at most; more than `max_length` where it reads in parts."""
        return self.max_length

    @property
    def is_endless(self) -> bool:
        """Whether a text can go on past `max_length`, with a state that does not grow."""
        return False

    @property
    def read_at_once(self) -> int:
        """Tokens of a text that are made one vector of together; longer ones are split."""
        return self.longest_text

    @property
    def allocated_at_once(self) -> bool:
        """Whether a state takes all of its memory at the beginning, however short the texts are."""
        return False

    @property
    def position(self) -> str | None:
        """The name of the position encoding that the input meets first; None: there is none."""
        return None

    @property
    def steady_length(self) -> int:
        """The longest text whose rows do not depend on how long it is; what stands beside it never counts."""
        return self.max_length

    @property
    def grid(self) -> GridForm | None:
        """How an image becomes rows; None: the model reads text."""
        return None

    @property
    def series(self) -> SeriesForm | None:
        """What windows of series it reads and forecasts; None: it reads something else."""
        return None

    @property
    def is_plain(self) -> bool:
        """Whether it has none of the settings for long sequences, which other tools' models do not have."""
        return True

    @property
    def needs_weights(self) -> bool:
        """Whether a part stays as another run has learned it, so that training cannot begin without that run."""
        return False

    @property
    def separator(self) -> int | None:
        """The token that ends a segment; None: segments are not told apart."""
        return None

    def with_labels(self, n_labels: int) -> Self:
        """As the data have them, where the model is a classifier itself."""
        return self

    def with_series(self, n_columns: int, n_seen: int, n_known: int, n_outputs: int) -> Self:
        """As the data have them, where the model reads series."""
        return self

    def as_imported(self, other: "ModelConfig") -> Self:
        """With what belongs to the tokenizer of an imported model: its table may have more rows than there are tokens,
        and another token may end a segment."""
        changes = {"vocab_size": other.vocab_size}
        if self.separator is not None and other.separator is not None:
            changes["separator"] = other.separator
        return replace(self, **changes)
