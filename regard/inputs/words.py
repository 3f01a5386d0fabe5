"""Words, or the tokens of any vocabulary: a learned vector for each."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.inputs.interface import InputTable
from regard.nn.layout import Layout


class Words(nn.Embedding, InputTable):
    """x_t = scale * E[token_t]

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
