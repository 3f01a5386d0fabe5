"""What a model asks of the part that reads its inputs."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from regard.errors import ConfigError
from regard.nn.layout import Layout


class InputTable(nn.Module, ABC):
    """Inputs of some kind, one for each row of a layout -> rows (N, d_out)."""

    scale = 1.0  # the last thing that rows are multiplied with

    @property
    @abstractmethod
    def d_out(self) -> int:
        """The width of a row."""

    @property
    def vectors(self) -> nn.Parameter | None:
        """(inputs, d_out): one for each known input, with which outputs can be compared; None: there are none."""
        return None

    def replace_vectors(self, vectors: nn.Parameter) -> None:
        """Take other vectors, or more of them, or those of another table."""
        raise ConfigError("this model does not read words: its inputs have no vectors")

    @abstractmethod
    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        """Inputs as they lie in the layout, (N, ...) or (B, T, ...) -> one row each, (N, d_out) or (B, T, d_out)."""
