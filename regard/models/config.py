"""What is asked of the settings of every architecture."""

import sys
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of an architecture: it adds its own, and what is asked here of one without such a setting has an
    answer too."""

    vocab_size: int

    max_length = sys.maxsize  # tokens of a sequence; where a model has no limit, a number that no text reaches
    d_model = 1  # the width of a row, by which the paper's schedule divides; 1: the model has no rows
    tied = True  # whether the embeddings are also the output table, where they are as wide as rows

    @property
    def position(self) -> str | None:
        """The name of the position encoding that the input meets first; None: there is none."""
        return None

    @property
    def steady_length(self) -> int:
        """The longest text whose rows do not depend on how long it is; what stands beside it never counts."""
        return self.max_length

    @property
    def needs_weights(self) -> bool:
        """Whether a part stays as another run has learned it, so that training cannot begin without that run."""
        return False

    @property
    def separator(self) -> int | None:
        """The token that ends a segment; None: segments are not told apart."""
        return None

    def as_imported(self, other: "ModelConfig") -> Self:
        """With what belongs to the tokenizer of an imported model: its table may have more rows than there are tokens,
        and another token may end a segment."""
        changes = {"vocab_size": other.vocab_size}
        if self.separator is not None and other.separator is not None:
            changes["separator"] = other.separator
        return replace(self, **changes)
