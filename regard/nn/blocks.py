"""The blocks of which encoders and decoders are stacked: sublayers, each with a residual connection and a norm."""

from collections.abc import Callable
from functools import partial
from typing import TypeGuard

import torch
from torch import Tensor, nn

from regard.nn.activations import Activation, gelu, relu, swish, tanh_gelu
from regard.nn.attention import Memory, MultiHeadAttention, Past
from regard.nn.compiler import compile_failure
from regard.nn.layout import Layout
from regard.nn.linear import Linear, activated, finished, n_weights, onto, products
from regard.nn.sight import Sight, everywhere

# Rows -> what it makes of them; where a second tensor is given, added to that.
Sublayer = Callable[[Tensor, Tensor | None], Tensor]


class Residual(nn.Module):
    """Post-norm, as in the paper: Norm(x + Dropout(sublayer(x))).  Pre-norm: x + Dropout(sublayer(Norm(x))).

    x keeps its precision: norms are taken in float32, also where the rest is in half of that.
    """

    def __init__(self, norm: nn.Module, dropout: float, pre_norm: bool):
        super().__init__()
        self.norm = norm
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = pre_norm

    def read(self, x: Tensor) -> Tensor:
        """What the sublayer reads of x."""
        return self.normed(x) if self.pre_norm else x

    def forward(self, x: Tensor, sublayer: Sublayer) -> Tensor:
        if self.pre_norm and not self.training:
            return sublayer(self.read(x), x)
        if self.pre_norm:
            return x + self.dropout(sublayer(self.read(x), None))
        return self.normed(x, self.dropout(sublayer(x, None))).to(x.dtype)

    def normed(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        """Norm(x + added)"""
        if takes_one_kernel(self.norm, x):
            from regard.nn.step_kernels import add_norm  # where there is a GPU and a compiler, there is Triton

            return add_norm(x, added, self.norm.weight, self.norm.bias, self.norm.eps)
        return self.norm(x if added is None else x + added)


def takes_one_kernel(norm: nn.Module, x: Tensor) -> TypeGuard[nn.LayerNorm]:
    """Whether a sum and its norm can be one kernel: where nothing is learned, on a GPU, in one precision."""
    return (
        x.is_cuda
        and isinstance(norm, nn.LayerNorm)
        and norm.weight.dtype == x.dtype
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cuda")
        and not torch.compiler.is_compiling()
        and not compile_failure("cuda")
    )


class FeedForward(nn.Module):
    """FFN(x) = f(x W1 + b1) W2 + b2  (Vaswani et al. 2017, eq. 2, where f is ReLU)"""

    def __init__(self, activation: Activation, d_model: int, d_ff: int, bias: bool):
        super().__init__()
        self.activation = activation
        self.expand = Linear(d_model, d_ff, bias)
        self.contract = Linear(d_ff, d_model, bias)

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        return onto(added, self.contract, activated(self.expand, x, self.activation))


class GatedFeedForward(nn.Module):
    """(f(x W) * x V) W2  (Shazeer 2020)"""

    def __init__(self, activation: Activation, d_model: int, d_ff: int, bias: bool):
        super().__init__()
        self.activation = activation
        self.gate = Linear(d_model, d_ff, bias)
        self.expand = Linear(d_model, d_ff, bias)
        self.contract = Linear(d_ff, d_model, bias)

    def forward(self, x: Tensor, added: Tensor | None = None) -> Tensor:
        if x.is_cuda:  # there a copy of both weights would be large, and gain little
            return onto(added, self.contract, activated(self.gate, x, self.activation) * self.expand(x))
        gate, expanded = products(x, [self.gate, self.expand])
        return onto(added, self.contract, self.activation(gate) * expanded)


FEED_FORWARDS: dict[str, Callable[[int, int, bool], nn.Module]] = {  # of d_model, d_ff and whether there are biases
    "relu": partial(FeedForward, relu),
    "gelu": partial(FeedForward, gelu),
    "gelu_tanh": partial(FeedForward, tanh_gelu),  # GPT
    "swish": partial(FeedForward, swish),
    "swiglu": partial(GatedFeedForward, swish),  # Llama
    "geglu": partial(GatedFeedForward, tanh_gelu),  # T5 v1.1
}


class EncoderBlock(nn.Module):
    """Look around, then think: self-attention and a feed-forward net.  With a causal sight it is a block of GPT."""

    def __init__(self, attention: MultiHeadAttention, feed_forward: nn.Module, residual: Callable[[], Residual]):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.feed_forward_residual = residual()

    def forward(self, x: Tensor, layout: Layout, sight: Sight, past: Past | None = None) -> Tensor:
        x = self.attention_residual(x, lambda h, added: self.attention.look_at_self(h, layout, sight, past, added))
        return self.feed_forward_residual(x, self.feed_forward)

    def look(self, x: Tensor, layout: Layout, sight: Sight, past: Past | None = None) -> Tensor:
        """What the attention adds to x; only where norms come first."""
        return self.attention.look_at_self(self.attention_residual.read(x), layout, sight, past)

    def think(self, x: Tensor) -> Tensor:
        """What the feed-forward net adds."""
        return self.feed_forward(self.feed_forward_residual.read(x))

    def couple(
        self, x1: Tensor, x2: Tensor, layout: Layout, sight: Sight, past: Past | None = None
    ) -> tuple[Tensor, Tensor]:
        """Two streams, each of which learns what the other holds: see `regard.nn.reversible`."""
        y1 = x1 + self.look(x2, layout, sight, past)
        return y1, x2 + self.think(y1)

    def recall(self, rows: Tensor, layout: Layout, whole: Layout) -> Past:
        """Rows (B, M, D) that this block read earlier, as a past; `whole` is how they and the new ones lie together."""

        def past(new: Memory) -> Memory:
            old = self.attention.remember(self.attention_residual.read(rows), layout)
            return Memory(torch.cat([old.keys, new.keys], 1), torch.cat([old.values, new.values], 1), whole)

        return past

    def multiplications(self, n_keys: float) -> float:
        """For a row that looks at so many keys."""
        return self.attention.multiplications(n_keys) + n_weights(self.feed_forward)


class DecoderBlock(nn.Module):
    """Look back, look across at the memory, then think."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ):
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual = residual()
        self.cross_attention_residual = residual()
        self.feed_forward_residual = residual()

    def forward(
        self, x: Tensor, layout: Layout, sight: Sight, memory: Memory, across: Layout, past: Past | None = None
    ) -> Tensor:
        """`across` is how the rows of x lie against the memory: as in `layout`, except where several rows share one."""

        def look_across(h: Tensor, added: Tensor | None) -> Tensor:
            return finished(self.cross_attention(across.arrange(h), across, memory, everywhere).view_as(h), None, added)

        x = self.attention_residual(x, lambda h, added: self.attention.look_at_self(h, layout, sight, past, added))
        x = self.cross_attention_residual(x, look_across)
        return self.feed_forward_residual(x, self.feed_forward)

    def multiplications(self, n_keys: float, n_source: float, n_made: float = 1.0) -> float:
        """For a row that looks at so many keys of its own sequence and of the memory, `n_made` of which are its own."""
        looking = self.attention.multiplications(n_keys) + self.cross_attention.multiplications(n_source, n_made)
        return looking + n_weights(self.feed_forward)
