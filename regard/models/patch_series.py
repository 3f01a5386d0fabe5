"""PatchTST (Nie et al. 2023): patches of a column are rows of a Transformer, and every column is read by itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import at_least, share
from regard.errors import ConfigError
from regard.inputs import InputTable
from regard.models.forecaster import Forecaster, ForecasterConfig, LookWeights
from regard.models.stack import Stack, StackConfig
from regard.nn.attention import Attention
from regard.nn.layout import Layout, Rectangle
from regard.nn.linear import Linear, n_weights
from regard.nn.positions import Space


class NumberRows(InputTable):
    """x_t = W numbers_t + b: rows (B, T, d_in), such as patches -> (B, T, d_out)"""

    def __init__(self, d_in: int, d_out: int):
        super().__init__()
        self.project = Linear(d_in, d_out)

    @property
    def d_out(self) -> int:
        return self.project.out_features

    def multiplications(self) -> float:
        return self.project.weight.numel()

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        return self.project(inputs)


@dataclass(frozen=True, kw_only=True)
class PatchTSTConfig(ForecasterConfig, StackConfig):
    """The settings of a stack, in a small size of the paper."""

    reads_features: ClassVar[bool] = False

    patch: int = 16  # steps of a patch, which is a row
    stride: int = 8  # steps from one patch to the next
    d_model: int = 16
    n_heads: int = 4
    n_layers: int = 3
    d_ff: int = 128
    dropout: float = 0.3
    head_dropout: float = 0.0  # on all rows of a column together, of which its future is read
    causal: bool = False  # `true`: a patch sees only those before it
    scale_embedding: bool = False

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        ForecasterConfig.__post_init__(self)
        at_least(self, 1, "patch", "stride")
        share(self, "head_dropout")
        if self.patch > self.look_back:
            raise ConfigError(f"a patch of {self.patch} steps does not fit look_back = {self.look_back}")
        if self.n_segments or self.d_embedding:
            raise ConfigError(
                "patches have no segments and no width of their own: n_segments and d_embedding must be 0"
            )

    @property
    def n_patches(self) -> int:
        """With one more at the end, in which the last value is repeated."""
        return (self.look_back - self.patch) // self.stride + 2

    def space(self, one_sided: bool) -> Space:
        return replace(super().space(one_sided), max_length=self.n_patches)


class PatchTST(Forecaster):
    """h_0 = W patches + positions, then blocks; y = W_o (all rows of a column) + b  (Nie et al. 2023, section 3.1)

    The paper's blocks have a batch norm; these are the blocks of every other Transformer here.
    """

    config: PatchTSTConfig

    def __init__(self, config: PatchTSTConfig):
        super().__init__(config)
        c = config
        self.stack = Stack(c, NumberRows(c.patch, c.d_model))
        self.dropout = nn.Dropout(c.head_dropout)
        self.to_future = Linear(c.n_patches * c.d_model, c.horizon * c.n_outputs)

    def predict(self, past: Tensor, features: Tensor, future: Tensor | None) -> Tensor:
        patches = self.patches(past).flatten(0, 1)  # B C, n, P
        rows = self.stack(patches, rectangle(patches))
        outputs = self.to_future(self.dropout(rows.flatten(1)))
        return self.split(outputs.unflatten(0, (len(past), -1)))

    def patches(self, past: Tensor) -> Tensor:
        """(B, L, C) -> (B, C, n, P)"""
        padded = F.pad(past.transpose(1, 2), (0, self.config.stride), mode="replicate")
        return padded.unfold(-1, self.config.patch, self.config.stride)

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        return self.stack.attentions()

    def looks(self, past: list[str], ahead: list[str], columns: list[str]) -> dict[str, LookWeights]:
        """A patch is called by its first step."""
        names = [past[i * self.config.stride] for i in range(self.config.n_patches)]
        return {"self": LookWeights("patches", names, names, of_each_column=True)}

    def multiplications(self) -> float:
        n = self.config.n_patches
        rows = n * (self.stack.multiplications(n) + self.stack.embedding.multiplications())
        return self.form.n_columns * (rows + n_weights(self.to_future))


def rectangle(rows: Tensor) -> Rectangle:
    """How rows (B, T, D) lie: all sequences are equally long."""
    n, length = rows.shape[:2]
    return Rectangle(torch.full((n,), length, device=rows.device), length, is_full=True)
