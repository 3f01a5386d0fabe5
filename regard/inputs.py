"""What stands in front of a model: tables that turn inputs of some kind into the rows that its blocks read."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


class Words(nn.Embedding, InputTable):
    """Words, or the tokens of any vocabulary, with a learned vector for each: x_t = scale * E[token_t]

    The Transformer scales by sqrt(d_model) (Vaswani et al. 2017, section 3.4).  `dropout` leaves out whole words: in
    training some of the vocabulary are absent, wherever they stand (Merity et al. 2018, section 4.3).
    """

    weight: nn.Parameter

    def __init__(self, vocab_size: int, d_out: int, scale: float = 1.0, dropout: float = 0.0):
        super().__init__(vocab_size, d_out)
        self.scale, self.dropout = scale, dropout

    @property
    def d_out(self) -> int:
        return self.embedding_dim

    @property
    def vectors(self) -> nn.Parameter:
        return self.weight

    def replace_vectors(self, vectors: nn.Parameter) -> None:
        self.weight, self.num_embeddings = vectors, len(vectors)

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:  # type: ignore[override]
        x = super().forward(inputs)
        if self.training and self.dropout:
            present = F.dropout(torch.ones(self.num_embeddings, 1, device=x.device), self.dropout)
            x = x * F.embedding(inputs, present)
        return x if self.scale == 1 else x * self.scale


def words_or(
    inputs: InputTable | None, vocab_size: int, d_out: int, scale: float = 1.0, dropout: float = 0.0
) -> InputTable:
    """The inputs that a model was given, or new words."""
    if inputs is None:
        return Words(vocab_size, d_out, scale, dropout)
    if inputs.d_out != d_out:
        raise ConfigError(f"the inputs become rows of {inputs.d_out} numbers, and the model reads rows of {d_out}")
    return inputs
