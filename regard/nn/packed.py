"""Attention of many short sequences as one: all rows of a flat batch are a single sequence of FlexAttention, whose
block mask leaves little but the blocks on the diagonal.  Nothing is padded, and a block holds several sequences.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.nn.layout import Ragged
from regard.nn.sight import Sight

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128  # rows, and keys, at a time


def attend_packed(
    queries: Tensor, layout: Ragged, keys: Tensor, values: Tensor, key_layout: Ragged, sight: Sight, scale: float
) -> Tensor:
    """Queries, keys and values (rows, H, E) -> the mixed values (rows, H, E); to be called in compiled code."""
    from torch.nn.attention.flex_attention import flex_attention

    mask = block_mask(layout, key_layout, sight)
    queries, keys, values = (rows.transpose(0, 1)[None] for rows in (queries, keys, values))  # 1 H rows E
    out = flex_attention(queries, keys, values, block_mask=mask, scale=scale)
    return out[0].transpose(0, 1)


def block_mask(layout: Ragged, key_layout: Ragged, sight: Sight) -> "BlockMask":
    """Rows look at the keys of their own sequence, as far as the rule allows; other blocks are never visited."""
    from torch.nn.attention.flex_attention import BlockMask

    def allows(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        own = layout.sequences[q]
        return (own == key_layout.sequences[k]) & sight.allows(layout.positions[q], key_layout.positions[k], own)

    device = layout.offsets.device
    first = torch.arange(0, layout.n_rows, BLOCK, device=device)  # row of each block
    last = (first + BLOCK - 1).clamp(max=layout.n_rows - 1)
    begin = key_layout.offsets[layout.sequences[first]] // BLOCK
    end = (key_layout.offsets[layout.sequences[last] + 1] + BLOCK - 1) // BLOCK
    n_blocks = (key_layout.n_rows + BLOCK - 1) // BLOCK
    visited = (begin[:, None] + torch.arange(n_blocks, device=device)) % n_blocks  # only the first end - begin of them
    return BlockMask.from_kv_blocks(
        (end - begin).int()[None, None],
        visited.int()[None, None],
        BLOCK_SIZE=BLOCK,
        mask_mod=allows,
        seq_lengths=(layout.n_rows, key_layout.n_rows),
    )
