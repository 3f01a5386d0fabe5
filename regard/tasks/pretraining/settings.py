"""The [task] tables of tasks that are learned from plain text, before others."""

from dataclasses import dataclass

from regard.checks import at_least, not_negative, one_of, positive, positive_share, proper_share, share
from regard.choose import choose
from regard.data.batching.noise import NOISES
from regard.data.batching.streams import DOCUMENTS
from regard.errors import ConfigError
from regard.tasks.framing import Frame
from regard.tasks.language.settings import StreamConfig
from regard.tasks.pretraining.batches import N_FIXED
from regard.tasks.settings import TaskConfig
from regard.text.tokenizer import Tokenizer

# How often masks are drawn before they come again: BERT's data held ten copies of each text (section A.2), RoBERTa's
# texts are never masked in the same way twice (Liu et al. 2019, section 4.1).
MASKS: dict[str, int | None] = {"static": 10, "dynamic": None}
OBJECTIVES = ("text", "spans")


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(TaskConfig):
    """What every task on masked words may set."""

    documents: str = "lines"  # what a document is: a line, or a block of lines up to an empty one
    window: int = 128  # the most tokens of a passage, <s> and </s> among them
    share: float = 0.15  # of the tokens that are masked
    masks: str = "dynamic"  # drawn anew each epoch; static: ten draws, again and again

    def __post_init__(self) -> None:
        choose(DOCUMENTS, self.documents, "kind of documents")
        choose(MASKS, self.masks, "kind of masks")
        at_least(self, N_FIXED[self.asks_next] + 2, "window")
        proper_share(self, "share")
        one_of(self, ("loss", "accuracy"), "metric")

    @property
    def asks_next(self) -> bool:
        """Whether passages have two parts, of which the second may not follow the first."""
        return False


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(MaskingConfig):
    nsp: bool = True  # predict also whether the second half of a passage follows the first: next-sentence prediction
    shown: int = 2  # passages shown at each validation

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "shown")

    @property
    def asks_next(self) -> bool:
        return self.nsp


@dataclass(frozen=True, kw_only=True)
class ReplacedConfig(MaskingConfig):
    generator: float = 0.25  # the generator's width, as a share of the reader's
    weight: float = 50.0  # of what the reader predicts, beside the generator's masked words

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_share(self, "generator")
        positive(self, "weight")


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(StreamConfig):
    window: int = 128  # tokens learned from at once, of a stream or a text


@dataclass(frozen=True, kw_only=True)
class NoisedConfig(StreamConfig):
    """What every task on text that chance changes may set."""

    unit: str = "text"  # lines, stream or text

    @property
    def shortest_window(self) -> int:
        """There must be something left to go by."""
        return 8


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(NoisedConfig):
    """The defaults are BART's: sentences permuted, 30 % of the tokens masked in spans of three on average."""

    objective: str = "text"  # what is to be written: the text, or the spans that are missing
    noises: tuple[str, ...] = ("permute", "infill")  # for "text": mask, delete, infill, permute, rotate, in this order
    share: float = 0.3  # of the tokens that are masked
    mean_span: float = 3.0  # tokens
    smoothing: float = 0.0
    shown: int = 2  # samples at each validation

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, OBJECTIVES, "objective")
        for name in self.noises:
            choose(NOISES, name, "noise")
        if self.objective == "text" and not self.noises:
            raise ConfigError(f"objective = 'text' needs noises: some of {', '.join(NOISES)}")
        if self.objective == "spans" and self.noises:
            raise ConfigError("objective = 'spans' is a noise by itself; set noises = []")
        proper_share(self, "share")
        at_least(self, 1, "mean_span")
        share(self, "smoothing")
        not_negative(self, "shown")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        return Frame(tokenizer.start_id, tokenizer.end_id)


@dataclass(frozen=True, kw_only=True)
class PermutationConfig(NoisedConfig):
    share: float = 1 / 6  # of the tokens that are predicted: 1 / K of the paper
    longest_span: int = 5  # tokens of a span that is predicted; their order is random too

    def __post_init__(self) -> None:
        super().__post_init__()
        proper_share(self, "share")
        at_least(self, 1, "longest_span")
