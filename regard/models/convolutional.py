"""Convolutional networks over sequences, as in ConvS2S (Gehring et al. 2017) and ByteNet (Kalchbrenner et al. 2016)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import at_least, share
from regard.choose import choose
from regard.errors import RegardError
from regard.inputs import InputTable, words_or
from regard.models.config import ModelConfig
from regard.models.interface import Reader
from regard.nn.convolution import CONVOLUTIONS, ConvolutionalBlock, check_kernel
from regard.nn.layout import Layout
from regard.nn.linear import n_weights
from regard.nn.positions import POSITIONS, Position, Space
from regard.nn.state import RowState

# Convolutions have no queries, keys or scores: only what is added to the embeddings can show them places.
EMBEDDED = {
    name: position
    for name, position in POSITIONS.items()
    if position is Position or position.embed is not Position.embed
}


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    """ByteNet has no positions: kind "bytenet", position "none"."""

    d_model: int = 512  # width of the hidden rows and embeddings
    n_layers: int = 8  # how many layers
    kernel: int = 3  # tokens that a convolution reads at once
    kind: str = "convs2s"  # `convs2s` (gated) or `bytenet` (dilated)
    causal: bool = True  # no token sees the future: needed to write text
    dropout: float = 0.1  # on the embeddings and on the output of each layer
    max_length: int = 1024  # tokens that the model can read: rows of the position table; nothing else grows with it
    position: str = "learned"  # what is added to the embeddings: `learned`, `sinusoidal`, `none`, `index`, `binary`

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "n_layers", "max_length")
        share(self, "dropout")
        check_kernel(self.kernel, self.causal)
        choose(CONVOLUTIONS, self.kind, "kind of convolution").widths(self.d_model)  # which may refuse
        choose(EMBEDDED, self.position, "position encoding for convolutions")

    @property
    def receptive_field(self) -> int:
        """How many tokens a hidden row depends on: 1 + (k - 1) (d_1 + .. + d_layers), with the dilations d."""
        dilations = CONVOLUTIONS[self.kind].dilations
        return 1 + (self.kernel - 1) * sum(dilations[i % len(dilations)] for i in range(self.n_layers))


class Convolutional(Reader["ConvolutionalState"]):
    """h_0 = embedding + position; h_l = block_l(h_(l-1)).  Reads tokens; when causal, also one step at a time."""

    config: ConvolutionalConfig
    takes_inputs = True
    blocks: Sequence[ConvolutionalBlock]

    def __init__(self, config: ConvolutionalConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
        self.sees_future = not c.causal
        self.embedding = words_or(inputs, c.vocab_size, c.d_model, math.sqrt(c.d_model))
        if self.embedding.vectors is not None:
            nn.init.normal_(self.embedding.vectors, std=c.d_model**-0.5)
        self.position = EMBEDDED[c.position](Space(c.d_model, 1, c.max_length))
        self.dropout = nn.Dropout(c.dropout)
        kind = CONVOLUTIONS[c.kind]
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            kind(c.d_model, c.kernel, kind.dilations[i % len(kind.dilations)], c.causal, c.dropout)
            for i in range(c.n_layers)
        )
        self.norm = nn.LayerNorm(c.d_model) if kind.ends_with_norm else nn.Identity()

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        x = self.embed(tokens, layout)
        for block in self.blocks:
            x = block(x, layout)
        return self.norm(x)

    def embed(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.dropout(self.position.embed(self.embedding(tokens, layout), layout.positions))

    def multiplications(self, length: int) -> float:
        return n_weights(*self.blocks)

    def start(self, n_rows: int, room: int) -> "ConvolutionalState":
        """Nothing read yet.  `room` is the most tokens a row will have; what is kept does not grow with it."""
        if not self.config.causal:
            raise RegardError(
                "this convolutional model reads to the left and right, so it cannot write; train with causal = true"
            )
        weight = next(self.parameters())
        pasts = [weight.new_zeros(n_rows, block.convolution.reach, block.d_window) for block in self.blocks]
        return ConvolutionalState(pasts, torch.zeros(n_rows, dtype=torch.long, device=weight.device))

    def step(self, tokens: Tensor, state: "ConvolutionalState") -> Tensor:
        n = tokens.shape[1]
        x = self.embed(tokens, state.queries(n))
        seen = []
        for block, before in zip(self.blocks, state.seen, strict=True):
            x, rows = block.step(x, before[:, state.n_last :])  # the last `reach` inputs
            seen.append(rows)
        state.seen, state.n_last, state.lengths = seen, n, state.lengths + n
        return self.norm(x)


class ConvolutionalState(RowState):
    """What the windows of the next tokens will read: the last inputs of each layer's convolution.

    The inputs of the last step are kept whole, so that all of that step can be taken back.
    """

    def __init__(self, seen: list[Tensor], lengths: Tensor):
        self.seen = seen  # for each layer (rows, reach + n_last, d_window), zeros before the first token
        self.lengths = lengths  # rows
        self.n_last = 0  # tokens of the last step

    def select(self, rows: Tensor) -> None:
        self.seen = [seen[rows] for seen in self.seen]
        self.lengths = self.lengths[rows]

    def truncate(self, lengths: Tensor) -> None:
        """Back to these lengths: at most the last step is taken back, or all that a row has."""
        lengths = torch.minimum(self.lengths, lengths)
        dropped = self.lengths - lengths
        if bool(((dropped > self.n_last) & (lengths > 0)).any()):
            raise RegardError(
                f"a convolutional model can take back the {self.n_last} tokens of its last step, "
                f"or all of a row, not {int(dropped.max())}"
            )
        self.seen = [self.without(seen, dropped, lengths) for seen in self.seen]
        self.lengths, self.n_last = lengths, 0

    def without(self, seen: Tensor, dropped: Tensor, lengths: Tensor) -> Tensor:
        """One layer's last `reach` inputs, less the `dropped` newest of each row."""
        reach = seen.shape[1] - self.n_last
        ages = torch.arange(reach, 0, -1, device=seen.device)  # 1: the newest that stays
        columns = (seen.shape[1] - dropped[:, None] - ages).clamp(min=0)
        newest = seen.gather(1, columns[:, :, None].expand(-1, -1, seen.shape[2]))
        return torch.where((ages <= lengths[:, None])[:, :, None], newest, 0)

    def join(self, other: "ConvolutionalState") -> None:
        self.n_last, surplus = min(self.n_last, other.n_last), self.n_last - other.n_last
        pairs = zip(self.seen, other.seen, strict=True)
        self.seen = [torch.cat([mine[:, max(surplus, 0) :], its[:, max(-surplus, 0) :]]) for mine, its in pairs]
        self.lengths = torch.cat([self.lengths, other.lengths])
