"""Convolutions over sequences: every row sees a window of its neighbors, all rows at once.

Rows beyond the ends of a sequence are zeros: a window reads neither padding nor the sequence next to its own.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.nn.layout import Layout
from regard.nn.linear import Linear


class Convolution(nn.Module):
    """y_t = W [x_(t+o_1) .. x_(t+o_k)] + b: one product with the k rows of a window, `dilation` apart.

    The offsets o end at 0 when causal and lie around 0 otherwise.  A product and not `conv1d`, because it is the same
    for flat rows, without padding, and for single steps.
    """

    def __init__(self, d_in: int, d_out: int, kernel: int, dilation: int, causal: bool):
        super().__init__()
        check_kernel(kernel, causal)
        last = 0 if causal else kernel // 2
        self.offsets = [dilation * (last - i) for i in reversed(range(kernel))]
        self.product = Linear(kernel * d_in, d_out)

    @property
    def reach(self) -> int:
        """How many rows back the window goes."""
        return -self.offsets[0]

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Rows (N, d_in) or (B, T, d_in), as the layout has them -> the same with d_out."""
        places = torch.arange(layout.longest, device=x.device).expand(layout.n_sequences, -1)  # B T
        before = layout.flatten(places).flatten()  # how many rows of its sequence come before each row, and after it
        after = layout.flatten(layout.lengths[:, None] - 1 - places).flatten()
        rows = x.flatten(0, -2)
        windows = [
            # What wraps round, or comes from the next sequence, is outside of the row's own.
            torch.where(((before + offset >= 0) & (offset <= after))[:, None], rows.roll(-offset, 0), 0)
            for offset in self.offsets
        ]
        return self.product(torch.cat(windows, dim=-1)).unflatten(0, x.shape[:-1])

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """The next n rows of each sequence (B, n, d_in), and its last `reach` (zeros before its start) ->
        their outputs (B, n, d_out), and past and new rows together."""
        assert self.offsets[-1] == 0, "what comes later is not known yet"
        seen, n = torch.cat([past, x], dim=1), x.shape[1]
        windows = [seen[:, self.reach + offset :][:, :n] for offset in self.offsets]
        return self.product(torch.cat(windows, dim=-1)), seen


def check_kernel(kernel: int, causal: bool) -> None:
    if kernel < 1:
        raise ConfigError(f"kernel must be at least 1, got {kernel}")
    if not causal and kernel % 2 == 0:
        raise ConfigError(f"a window that is not causal has a middle: kernel must be odd, got {kernel}")


class ConvolutionalBlock(nn.Module, ABC):
    """One layer: rows in, rows of the same width out.  `step` is `forward` for the next rows of each sequence."""

    dilations: tuple[int, ...]  # of the layers of a stack, over and over
    ends_with_norm: bool  # whether a stack needs one more norm at its end

    def __init__(self, d_model: int, kernel: int, dilation: int, causal: bool, dropout: float):
        super().__init__()
        self.d_window, d_convolved = self.widths(d_model)
        self.convolution = Convolution(self.d_window, d_convolved, kernel, dilation, causal)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    @abstractmethod
    def widths(d_model: int) -> tuple[int, int]:
        """Of what the convolution reads, and of what it makes."""

    @abstractmethod
    def enter(self, x: Tensor) -> Tensor:
        """The block's input -> what the convolution reads."""

    @abstractmethod
    def leave(self, x: Tensor, convolved: Tensor) -> Tensor:
        """The block's input and what the convolution made -> the block's output."""

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.leave(x, self.convolution(self.enter(x), layout))

    def step(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        convolved, seen = self.convolution.step(self.enter(x), past)
        return self.leave(x, convolved), seen


class GatedBlock(ConvolutionalBlock):
    """(h + GLU(W [h_(t-k/2) .. h_(t+k/2)] + b)) sqrt(.5), with GLU([a b]) = a * sigmoid(b)
    (Gehring et al. 2017, sections 3.2 and 3.4)

    Without the paper's weight normalization.
    """

    dilations = (1,)
    ends_with_norm = False

    def __init__(self, d_model: int, kernel: int, dilation: int, causal: bool, dropout: float):
        super().__init__(d_model, kernel, dilation, causal, dropout)
        # A gate passes a quarter of the variance, dropout raises it (section 3.5).
        nn.init.normal_(self.convolution.product.weight, std=math.sqrt(4 * (1 - dropout) / (kernel * d_model)))
        nn.init.zeros_(self.convolution.product.bias)

    @staticmethod
    def widths(d_model: int) -> tuple[int, int]:
        return d_model, 2 * d_model

    def enter(self, x: Tensor) -> Tensor:
        return self.dropout(x)

    def leave(self, x: Tensor, convolved: Tensor) -> Tensor:
        return (x + F.glu(convolved, dim=-1)) * math.sqrt(0.5)


class DilatedBlock(ConvolutionalBlock):
    """h + W_2 f(conv(f(W_1 f(h)))), with f(x) = ReLU(LayerNorm(x)), at half the width inside
    (Kalchbrenner et al. 2016, figure 3 left)

    From layer to layer the dilation doubles, and after 16 it begins again (section 3.5).  The paper has no dropout;
    here it comes before the sum.
    """

    dilations = (1, 2, 4, 8, 16)
    ends_with_norm = True

    def __init__(self, d_model: int, kernel: int, dilation: int, causal: bool, dropout: float):
        super().__init__(d_model, kernel, dilation, causal, dropout)
        self.narrow = Linear(d_model, self.d_window)
        self.widen = Linear(self.d_window, d_model)
        self.norm_before_narrow = nn.LayerNorm(d_model)
        self.norm_before_convolution = nn.LayerNorm(self.d_window)
        self.norm_before_widen = nn.LayerNorm(self.d_window)
        for linear in (self.narrow, self.convolution.product, self.widen):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)

    @staticmethod
    def widths(d_model: int) -> tuple[int, int]:
        if d_model % 2:
            raise ConfigError(f"bytenet has half the width inside: d_model must be even, got {d_model}")
        return d_model // 2, d_model // 2

    def enter(self, x: Tensor) -> Tensor:
        narrow = self.narrow(F.relu(self.norm_before_narrow(x)))
        return F.relu(self.norm_before_convolution(narrow))

    def leave(self, x: Tensor, convolved: Tensor) -> Tensor:
        return x + self.dropout(self.widen(F.relu(self.norm_before_widen(convolved))))


CONVOLUTIONS: dict[str, type[ConvolutionalBlock]] = {"convs2s": GatedBlock, "bytenet": DilatedBlock}
