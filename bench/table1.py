"""The layers of table 1 of "Attention Is All You Need" (Vaswani et al. 2017): each as a module, with its formulas.

n tokens, width d, kernel k, neighbourhood r.  The table counts what grows; `operations` counts all multiplications with
weights and between rows, so that a measurement can be held against both.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.nn.attention import Attend, Heads, Memory, MultiHeadAttention
from regard.nn.case import Case
from regard.nn.convolution import CONVOLUTIONS
from regard.nn.layout import Layout, Ragged
from regard.nn.paths import BLOCKS_FROM, run_padded
from regard.nn.positions import Position, Space
from regard.nn.recurrent import LSTM
from regard.nn.sight import Sight, everywhere, window

D_HEAD = 64
KERNEL = 3
WIDTH = 64  # of the window, to each side: a neighbourhood of r = 2 · 64 + 1


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence over itself."""

    def __init__(self, d_model: int, sight: Sight):
        super().__init__()
        n_heads = max(1, d_model // D_HEAD)
        self.attention = MultiHeadAttention(Heads(d_model, n_heads), "scaled_dot", Position(Space(d_model, n_heads, 1)))
        self.sight = sight

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.attention(x, layout, self.attention.remember(x, layout), self.sight)


class MaskedSelfAttention(SelfAttention):
    """The same, by a mask: all scores are computed, and those that the rule hides get no weight."""

    def __init__(self, d_model: int, sight: Sight):
        super().__init__(d_model, sight)
        attend = self.attention.attend
        self.attention.attend = AttendByMask(attend.score, attend.position)


class AttendByMask(Attend):
    """The kernel that takes any rule, whichever path fits it better."""

    def forward(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        kept = memory.keys, memory.values, memory.layout
        return run_padded(Case(queries, layout, *kept, sight, self.score.scale, self.position))


class Recurrent(nn.Module):
    def __init__(self, d_model: int):
        super().__init__()
        self.cell = LSTM(d_model, d_model)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        hidden, _ = self.cell(layout.pad(x), self.cell.zero_state(layout.n_sequences, x))
        return layout.flatten(hidden)


@dataclass(frozen=True, kw_only=True)
class Layer:
    make: Callable[[int, int], nn.Module]  # from the width and the number of layers below
    complexity: str  # per layer, as in the table
    sequential: str
    path: str
    exponent: int  # of n in the complexity
    operations: Callable[[int, int], int]  # multiplications of our layer, from n and d
    steps: Callable[[int], int]  # that wait for one another, from n
    longest_path: Callable[[int], int]  # between the first token and the last, from n


def at_once(n: int) -> int:
    return 1


def one_by_one(n: int) -> int:
    return n


def hops(n: int, reach: int) -> int:
    """Layers from the first of n tokens to the last, each `reach` further."""
    return max(1, -(-(n - 1) // reach))


def doublings(n: int, reach: int) -> int:
    """The same when the layers go `reach`, 2 `reach`, 4 `reach` .. further."""
    n_layers = 1
    while reach * (2**n_layers - 1) < n - 1:
        n_layers += 1
    return n_layers


LAYERS = {
    "self-attention": Layer(
        make=lambda d, below: SelfAttention(d, everywhere),
        complexity="n² d",
        sequential="1",
        path="1",
        exponent=2,
        operations=lambda n, d: 4 * n * d**2 + 2 * n**2 * d,
        steps=at_once,
        longest_path=at_once,
    ),
    "restricted, mask": Layer(
        make=lambda d, below: MaskedSelfAttention(d, window(WIDTH)),
        complexity="r n d",
        sequential="1",
        path="n / r",
        exponent=1,
        operations=lambda n, d: 4 * n * d**2 + 2 * n**2 * d,
        steps=at_once,
        longest_path=lambda n: hops(n, WIDTH),
    ),
    "restricted": Layer(  # as in any of our models; on a CPU in blocks of WIDTH queries, which see three of keys
        make=lambda d, below: SelfAttention(d, window(WIDTH)),
        complexity="r n d",
        sequential="1",
        path="n / r",
        exponent=1,
        operations=lambda n, d: 4 * n * d**2 + 2 * n * (n if n < BLOCKS_FROM * WIDTH else 3 * WIDTH) * d,
        steps=at_once,
        longest_path=lambda n: hops(n, WIDTH),
    ),
    "recurrent (LSTM)": Layer(
        make=lambda d, below: Recurrent(d),
        complexity="n d²",
        sequential="n",
        path="n",
        exponent=1,
        operations=lambda n, d: 8 * n * d**2,
        steps=one_by_one,
        longest_path=one_by_one,
    ),
    "convolution": Layer(
        make=lambda d, below: CONVOLUTIONS["convs2s"](d, KERNEL, 1, causal=False, dropout=0.0),
        complexity="k n d²",
        sequential="1",
        path="n / k",
        exponent=1,
        operations=lambda n, d: 2 * KERNEL * n * d**2,
        steps=at_once,
        longest_path=lambda n: hops(n, KERNEL // 2),
    ),
    "dilated": Layer(
        make=lambda d, below: CONVOLUTIONS["bytenet"](d, KERNEL, 2**below, causal=False, dropout=0.0),
        complexity="k n d²",
        sequential="1",
        path="log n",  # to the base 2, because the dilation doubles; the paper has log_k n
        exponent=1,
        operations=lambda n, d: n * d**2 + KERNEL * n * (d // 2) ** 2,
        steps=at_once,
        longest_path=lambda n: doublings(n, KERNEL // 2),
    ),
}


def measured_path(layer: Layer, n: int, d_model: int = 32) -> int:
    """The fewest layers by which the last row's output depends on the first row's input, times the steps within one."""
    layout = Ragged([n])

    def is_reached(x: Tensor) -> bool:
        (gradient,) = torch.autograd.grad(x[-1].square().sum(), hidden[0], retain_graph=True)
        return bool(gradient[0].any())

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hidden = [torch.randn(n, d_model, dtype=torch.double).requires_grad_()]
        while not is_reached(hidden[-1]):
            for below in range(len(hidden) - 1, max(1, 2 * (len(hidden) - 1))):  # twice as many layers
                hidden.append(layer.make(d_model, below).double()(hidden[-1], layout))
    return bisect_left(hidden, True, key=is_reached) * layer.steps(n)
