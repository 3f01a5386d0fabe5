"""The [task] table of answering questions."""

from dataclasses import dataclass

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.windows import FRAME, Lengths
from regard.errors import ConfigError
from regard.tasks.settings import TaskConfig


@dataclass(frozen=True, kw_only=True)
class AnswersConfig(TaskConfig):
    stride: int = 128  # a long context is read in windows that begin so many tokens after each other
    max_question: int = 64  # tokens of a question that are read, the last ones
    max_answer: int = 30  # tokens of the longest answer that is given
    threshold: float = 0.0  # log-odds against "cannot answer" above which an answer is given
    history: int = 0  # earlier questions of the same dialogue that are read before the one asked
    dropout: float = 0.1  # on the rows from which answers are read
    shown: int = 3  # samples shown at each validation
    metric: str = "f1"  # best_f1: with the threshold that is best for the validation

    def __post_init__(self) -> None:
        at_least(self, 1, "stride", "max_question", "max_answer")
        not_negative(self, "history")
        share(self, "dropout")
        one_of(self, ("f1", "best_f1", "exact", "loss"), "metric")

    def lengths(self, max_length: int) -> Lengths:
        """Of windows of `max_length` tokens and what is in them."""
        room = max_length - FRAME - self.max_question
        if self.stride > room:
            raise ConfigError(
                f"data.max_length = {max_length} leaves {max(room, 0)} tokens for the context after a question of "
                f"max_question = {self.max_question}, fewer than stride = {self.stride}: some would never be read; "
                "raise the first or lower the others"
            )
        return Lengths(window=max_length, stride=self.stride, question=self.max_question)
