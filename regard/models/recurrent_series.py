"""A recurrent net over the steps of all columns; its last state forecasts all steps ahead at once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks import at_least, share
from regard.choose import choose
from regard.models.forecaster import Forecaster, ForecasterConfig
from regard.models.patch_series import rectangle
from regard.nn.layer_dropout import LayerDropout
from regard.nn.linear import Linear, n_weights
from regard.nn.recurrent import CELLS, RecurrentStack


@dataclass(frozen=True, kw_only=True)
class RecurrentSeriesConfig(ForecasterConfig):
    look_back: int = 96
    d_hidden: int = 128  # width of each layer
    n_layers: int = 2  # how many layers
    cell: str = "lstm"  # `lstm`, `gru`, `rnn` (tanh) or `relu_rnn`
    dropout: float = 0.2  # on what each layer reads, and on the last state

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "d_hidden", "n_layers")
        share(self, "dropout")
        choose(CELLS, self.cell, "cell")


class RecurrentSeries(Forecaster):
    """h_t = cell(x_t, h_{t-1}); y_h = W_h h_L + b_h + V known_h"""

    config: RecurrentSeriesConfig

    def __init__(self, config: RecurrentSeriesConfig):
        super().__init__(config)
        c = config
        d_in = c.n_columns + c.n_seen + c.n_known
        widths = [d_in, *[c.d_hidden] * c.n_layers]
        self.stack = RecurrentStack(CELLS[c.cell], widths, False, LayerDropout.everywhere(c.dropout))
        self.to_future = Linear(c.d_hidden, c.horizon * c.n_columns * c.n_outputs)
        self.of_known = Linear(c.n_known, c.n_columns * c.n_outputs) if c.n_known else None

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        form = self.form
        steps = torch.cat([past, features[:, : form.look_back]], -1)
        last = self.stack(steps, rectangle(steps))[:, -1]
        outputs = self.to_future(last).unflatten(-1, (form.horizon, -1))  # B, H, C outputs
        if self.of_known is not None:
            outputs = outputs + self.of_known(features[:, form.look_back :])
        return outputs.unflatten(-1, (form.n_columns, form.n_outputs))

    def multiplications(self) -> float:
        form = self.form
        of_known = 0 if self.of_known is None else form.horizon * n_weights(self.of_known)
        return form.look_back * n_weights(self.stack) + n_weights(self.to_future) + of_known
