"""The [task] tables of tasks that turn a text into another."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from regard.checks import at_least, at_most, not_negative, one_of, share
from regard.errors import ConfigError
from regard.evaluation.rouge import rouge
from regard.evaluation.translation import bleu
from regard.tasks.framing import Frame
from regard.tasks.settings import TaskConfig
from regard.text.tokenizer import Tokenizer

# What is also measured of the outputs of a validation.
MEASURES: dict[str, Callable[[list[str], list[str]], float]] = {
    "bleu": lambda outputs, references: bleu(outputs, references, resamples=0).value,
    "rouge": lambda outputs, references: rouge(outputs, references)[-1].value,  # ROUGE-L
}


@dataclass(frozen=True, kw_only=True)
class PairsConfig(TaskConfig, ABC):
    """What every task on pairs of texts may set."""

    source: str = "source"  # names of the two languages, for people
    target: str = "target"
    smoothing: float = 0.1  # label smoothing (section 5.4 of the paper)
    validation_lines: int = 500  # how many validation pairs are also translated, for BLEU or ROUGE; 0: none
    shown: int = 3  # fixed samples shown at each validation
    long: str = "split"  # of a source longer than data.max_length: split (in training: dropped), or cut
    metric: str = "loss"  # which validated figure chooses the best checkpoint: loss, bleu or rouge

    def __post_init__(self) -> None:
        one_of(self, ("loss", *MEASURES), "metric")
        one_of(self, ("split", "cut"), "long")
        not_negative(self, "validation_lines", "shown")
        share(self, "smoothing")
        if self.metric != "loss" and self.validation_lines < 1:
            raise ConfigError(f"metric = {self.metric!r} needs validation_lines above 0")

    @property
    def measured(self) -> str:
        """Which measure a validation takes of the outputs."""
        return self.metric if self.metric in MEASURES else "bleu"

    @abstractmethod
    def frame(self, tokenizer: Tokenizer) -> Frame:
        """The tokens around a source and a target."""

    @property
    def verb(self) -> str:
        return "summarize" if self.long == "cut" else "translate"


@dataclass(frozen=True, kw_only=True)
class TranslationConfig(PairsConfig):
    source_start: int = -1  # a token that every source begins with (BART's has one); -1: none
    target_start: int = -1  # the token that every target begins with; -1: the tokenizer's start

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, -1, "source_start", "target_start")

    def check_tokens(self, vocab_size: int) -> None:
        at_most(self, vocab_size - 1, "source_start", "target_start")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        before = () if self.source_start < 0 else (self.source_start,)
        start = tokenizer.start_id if self.target_start < 0 else self.target_start
        return Frame(start, tokenizer.end_id, before, cut=self.long == "cut")


@dataclass(frozen=True, kw_only=True)
class PromptedConfig(PairsConfig):
    token: str = "<answer>"  # stands between source and answer; one of tokenizer.extra, such as <to-fr>

    def frame(self, tokenizer: Tokenizer) -> Frame:
        start, end, after = tokenizer.start_id, tokenizer.end_id, tokenizer.special_id(self.token)
        return Frame(start, end, (start,), after, cut=self.long == "cut")
