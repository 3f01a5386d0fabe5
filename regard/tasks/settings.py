"""The [task] table of a recipe, as far as all tasks share it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What every task may set."""

    metric: str = "loss"  # which validated figure chooses the best checkpoint

    @property
    def window(self) -> int:
        """Tokens of a usual sequence, for which costs are given; about a sentence, where no setting says more."""
        return 30

    @property
    def is_endless(self) -> bool:
        """Whether what is written has no end of its own."""
        return False
