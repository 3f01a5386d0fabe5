"""What models of series are: a window of the past in, the steps after it out."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from torch import Tensor

from regard.checks import at_least, not_negative, one_of
from regard.errors import ConfigError
from regard.models.config import ModelConfig
from regard.models.cost import Cost
from regard.models.interface import Model
from regard.nn.series import LEVELS, SeriesForm, WindowNorm


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(ModelConfig):
    """What every model of series has, whatever comes after."""

    reads_features: ClassVar[bool] = True  # False: it reads the columns that it forecasts, and nothing else

    look_back: int = 336  # steps of the past that are read
    horizon: int = 96  # steps ahead that are forecast
    # each window less its own last value (`last`), or less its mean and divided by its deviation (`window`: RevIN);
    # the forecast has it undone; `none`: neither
    normalize: str = "window"
    affine: bool = False  # of RevIN: a learned factor and a shift for each column
    n_columns: int = 1  # columns that are forecast; the data say how many
    n_seen: int = 0  # columns that are only read; likewise
    n_known: int = 0  # numbers that are known ahead of every step; likewise
    n_outputs: int = 1  # numbers that are forecast of a column: its mean, and quantiles; likewise

    def __post_init__(self) -> None:
        at_least(self, 1, "look_back", "horizon", "n_columns", "n_outputs")
        not_negative(self, "n_seen", "n_known")
        one_of(self, LEVELS, "normalize")
        if not self.reads_features and (self.n_seen or self.n_known):
            raise ConfigError(
                "this architecture reads the columns that it forecasts, and nothing else: leave task.seen, task.known "
                "and task.calendar empty, or take itransformer, recurrent-series or transformer-series"
            )

    @property
    def series(self) -> SeriesForm:
        counts = self.n_columns, self.n_seen, self.n_known, self.n_outputs
        return SeriesForm(self.look_back, self.horizon, *counts)

    def with_series(self, n_columns: int, n_seen: int, n_known: int, n_outputs: int) -> Self:
        return replace(self, n_columns=n_columns, n_seen=n_seen, n_known=n_known, n_outputs=n_outputs)


class LookWeights(NamedTuple):
    """One kind of a forecaster's attention: what it is called, who looks, who is looked at, and whether every column
    of a window has a map of its own."""

    kind: str
    queries: list[str]
    keys: list[str]
    of_each_column: bool = False


class Forecaster(Model):
    """Windows of standardized columns -> forecasts, standardized alike.

    The forecast of a window depends on that window alone.
    """

    role = "forecaster"
    config: ForecasterConfig
    dynamic_shapes = False

    def __init__(self, config: ForecasterConfig):
        super().__init__()
        self.config, self.form = config, config.series
        self.window_norm = WindowNorm(config.normalize, self.form.n_columns + self.form.n_seen, config.affine)

    def forward(self, past: Tensor, features: Tensor, future: Tensor | None = None) -> Tensor:
        """Past (B, L, C + seen) and features of past and future (B, L + H, known) -> (B, H, C, outputs).

        In training a model that writes step by step is given the true `future` (B, H, C), and at each step it reads
        what came before that step (teacher forcing).
        """
        levels = self.window_norm.levels(past)
        read = self.window_norm.apply_to(past, levels)
        before = None if future is None else self.window_norm.apply_to(future, levels)
        return self.window_norm.undo(self.predict(read, features, before), levels)

    @abstractmethod
    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        """The same, of windows that are normalized."""

    def looks(self, past: list[str], ahead: list[str], columns: list[str]) -> dict[str, LookWeights]:
        """By kind of `attentions`, with names of the steps of past and future, and of all columns that are read."""
        return {}

    @abstractmethod
    def multiplications(self) -> float:
        """For a whole window."""

    def cost(self, length: int) -> Cost:
        form = self.form
        how = f"2 per weight and use, a window of {form.look_back} + {form.horizon} steps shared by its steps"
        return Cost(2 * self.multiplications() / form.n_steps, how)

    def split(self, outputs: Tensor) -> Tensor:
        """(B, C, H outputs) -> (B, H, C, outputs)"""
        return outputs.unflatten(-1, (self.form.horizon, self.form.n_outputs)).transpose(1, 2)
