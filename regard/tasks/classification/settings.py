"""The [task] tables of tasks that predict a label."""

from dataclasses import dataclass

from regard.checks import one_of, share, sorted_classes
from regard.choose import choose
from regard.data.config import DataConfig
from regard.errors import ConfigError
from regard.models.heads import POOLERS
from regard.nn.pooling import POOLINGS
from regard.tasks.framing import KEEPS, Frame, Framing
from regard.tasks.settings import TaskConfig
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(TaskConfig):
    """What every way to predict labels may set."""

    labels: tuple[str, ...] = ()  # empty: those of the training data
    names: tuple[str, ...] = ()  # what people call the labels, in their order; empty: as the files do
    smoothing: float = 0.0
    keep: str = "first"  # which end of a text longer than data.max_length is read
    shown: int = 3  # samples shown at each validation
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        if self.names and len(set(self.names)) != len(self.labels):
            raise ConfigError(
                f"names must have one for each label, all different; got {list(self.names)} for {list(self.labels)}"
            )
        choose(KEEPS, self.keep, "end to keep")
        share(self, "smoothing")
        one_of(self, ("accuracy", "loss"), "metric")

    @property
    def framed(self) -> bool:
        """Whether texts are read as <s> a </s> or <s> a </s> b </s>."""
        return False

    def framing(self, tokenizer: Tokenizer, data: DataConfig) -> Framing:
        """How texts become sequences; of three columns two are texts."""
        return Framing(tokenizer, self.framed, self.keep, data.max_length, max(len(data.columns) - 1, 1))

    @property
    def n_labels(self) -> int:
        """Until the data are read, two: the fewest."""
        return len(self.labels) or 2

    @property
    def shown_labels(self) -> tuple[str, ...]:
        return self.names or self.labels


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(LabelsConfig):
    framed: bool = False  # read <s> text </s>, and of pairs <s> a </s> b </s>, as BERT does
    pooling: str = "mean"  # how a reader's rows become one
    pooler: str = "none"  # a layer with this activation between that one and the labels (BERT: tanh)
    dropout: float = 0.0  # on that one

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(POOLINGS, self.pooling, "summary (pooling)")
        choose(POOLERS, self.pooler, "activation (pooler)")
        share(self, "dropout")


@dataclass(frozen=True, kw_only=True)
class LabelWordsConfig(LabelsConfig):
    """A label is written as one of `names` (or as the files do)."""

    prefix: str = ""  # what every text begins with, to say what is asked

    def frame(self, tokenizer: Tokenizer) -> Frame:
        return Frame(tokenizer.start_id, tokenizer.end_id, tuple(tokenizer.encode(self.prefix)))
