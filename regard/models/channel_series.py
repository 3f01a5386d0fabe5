"""iTransformer (Liu et al. 2024): the whole past of a column is one row, and columns look at each other."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.models.forecaster import Forecaster, ForecasterConfig, LookWeights
from regard.models.patch_series import NumberRows, rectangle
from regard.models.stack import Stack, StackConfig
from regard.nn.attention import Attention
from regard.nn.linear import Linear, n_weights


@dataclass(frozen=True, kw_only=True)
class ITransformerConfig(ForecasterConfig, StackConfig):
    """The settings of a stack; columns have no order, so there are no positions."""

    look_back: int = 96
    d_model: int = 128
    n_heads: int = 8
    n_layers: int = 2
    d_ff: int = 128
    causal: bool = False
    scale_embedding: bool = False
    position: str = "none"

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        ForecasterConfig.__post_init__(self)
        if self.causal or self.position != "none":
            raise ConfigError('columns have no order: causal must be false, and position "none"')
        if self.n_segments or self.d_embedding:
            raise ConfigError("columns have no segments and no width of their own: both settings must be 0")


class ITransformer(Forecaster):
    """h_0 = W x_c for every column c, then blocks; y_c = W_o h_c + b  (Liu et al. 2024, eq. 1)

    What is known ahead is a row too, of past and future.
    """

    config: ITransformerConfig

    def __init__(self, config: ITransformerConfig):
        super().__init__(config)
        c = config
        self.of_known = Linear(c.series.n_steps, c.look_back) if c.n_known else None
        self.stack = Stack(c, NumberRows(c.look_back, c.d_model))
        self.to_future = Linear(c.d_model, c.horizon * c.n_outputs)

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        columns = past.transpose(1, 2)  # B, C + seen, L
        if self.of_known is not None:
            columns = torch.cat([columns, self.of_known(features.transpose(1, 2)).to(columns.dtype)], 1)
        rows = self.stack(columns, rectangle(columns))
        return self.split(self.to_future(rows[:, : self.form.n_columns]))

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        return self.stack.attentions()

    def looks(self, past: list[str], ahead: list[str], columns: list[str]) -> dict[str, LookWeights]:
        return {"self": LookWeights("columns", columns, columns)}

    def multiplications(self) -> float:
        form = self.form
        n = form.n_columns + form.n_seen + form.n_known
        of_known = 0 if self.of_known is None else form.n_known * n_weights(self.of_known)
        of_row = self.stack.multiplications(n) + self.stack.embedding.multiplications()
        return n * of_row + of_known + form.n_columns * n_weights(self.to_future)
