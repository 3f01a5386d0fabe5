"""Reversible residuals: the inputs of a block are computed from its outputs, so that none are kept for the gradient.

    y1 = x1 + Attention(x2),   y2 = x2 + FeedForward(y1);   back:   x2 = y2 - FeedForward(y1),   x1 = y1 - Attention(x2)

(Gomez et al. 2017; Kitaev et al. 2020, section 3)
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn.blocks import EncoderBlock
from regard.nn.layout import Layout
from regard.nn.sight import Sight


@torch.compiler.disable  # what goes back through the blocks is not a graph of theirs
def through(blocks: Sequence[EncoderBlock], x: Tensor, layout: Layout, sight: Sight) -> Tensor:
    """Rows through all blocks, as two streams that begin alike and end as their mean."""
    weights = [weight for block in blocks for part in parts(block) for weight in part]
    x = x if x.dtype == torch.float64 else x.float()  # what is subtracted again must not be rounded much
    first, second = Coupled.apply(x, x, layout, sight, blocks, *weights)
    return (first + second) / 2


def parts(block: EncoderBlock) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The weights of its two sublayers, with their norms."""
    looking = [*block.attention.parameters(), *block.attention_residual.parameters()]
    return looking, [*block.feed_forward.parameters(), *block.feed_forward_residual.parameters()]


class Coupled(torch.autograd.Function):
    """Keeps what the last block gives, and goes back from there."""

    @staticmethod
    def forward(
        ctx: Any,
        x1: Tensor,
        x2: Tensor,
        layout: Layout,
        sight: Sight,
        blocks: Sequence[EncoderBlock],
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.layout, ctx.sight, ctx.blocks = layout, sight, blocks
        kind = x1.device.type
        ctx.precision = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        for block in blocks:
            x1, x2 = block.couple(x1, x2, layout, sight)
        ctx.save_for_backward(x1, x2)
        return x1, x2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_1: Tensor, of_2: Tensor) -> tuple[Tensor | None, ...]:
        y1, y2 = ctx.saved_tensors
        kind, dtype, is_enabled = ctx.precision
        gradients: list[Tensor | None] = []
        with torch.autocast(kind, dtype, enabled=is_enabled):
            for block in reversed(ctx.blocks):
                looking, thinking = parts(block)
                thought, of_y1, of_thinking = again(block.think, y1, of_2, thinking)
                y2, of_1 = y2 - thought, of_1 + of_y1
                look = partial(block.look, layout=ctx.layout, sight=ctx.sight)
                seen, of_x2, of_looking = again(look, y2, of_1, looking)
                y1, of_2 = y1 - seen, of_2 + of_x2
                gradients = [*of_looking, *of_thinking, *gradients]
        return of_1, of_2, None, None, None, *gradients


def again(
    sublayer: Callable[[Tensor], Tensor], x: Tensor, gradient: Tensor, weights: list[nn.Parameter]
) -> tuple[Tensor, Tensor, list[Tensor | None]]:
    """What a sublayer gave, and the gradients of its input and its weights."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        out = sublayer(x)
        learned = [weight for weight in weights if weight.requires_grad]
        # Of attention, some positions act elsewhere: on the embeddings.
        of_x, *of_learned = torch.autograd.grad(out, [x, *learned], gradient.to(out.dtype), allow_unused=True)
    by_weight = dict(zip(map(id, learned), of_learned, strict=True))
    return out.detach(), of_x, [by_weight.get(id(weight)) for weight in weights]
