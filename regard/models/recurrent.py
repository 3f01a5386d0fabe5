"""Recurrent nets: RNN, LSTM and GRU, deep, in one direction or both, with the dropouts of the AWD-LSTM."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import at_least, not_negative, positive, share, share_or_none
from regard.choose import choose
from regard.errors import RegardError
from regard.inputs import InputTable, words_or
from regard.models.config import ModelConfig
from regard.models.interface import Reader
from regard.nn.layer_dropout import LayerDropout
from regard.nn.layout import Layout
from regard.nn.linear import n_weights
from regard.nn.recurrent import CELLS, Cell, RecurrentStack
from regard.nn.state import RowState


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    d_model: int = 256  # width of the embeddings
    d_hidden: int = 512  # width of each layer, in each direction
    d_last: int = 0  # width of the last layer; d_model: it shares the embeddings as output table; 0: d_hidden
    n_layers: int = 2  # how many layers
    cell: str = "lstm"  # `lstm`, `gru`, `rnn` (tanh) or `relu_rnn`
    bidirectional: bool = False  # also read from right to left; such a model cannot write text
    dropout: float = 0.2  # on the embedded tokens and on the output of each layer
    input_dropout: float = -1.0  # on the embedded tokens; -1: as `dropout`
    output_dropout: float = -1.0  # on the output of the last layer; -1: as `dropout`
    recurrent_dropout: float = 0.0  # on the weights from state to state (DropConnect)
    embedding_dropout: float = 0.0  # of whole words
    locked: bool = False  # `dropout` leaves out the same channels at all steps of a sequence
    # where states are carried, training adds this times the mean square of the last layer's output (AR) ...
    activation_penalty: float = 0.0
    change_penalty: float = 0.0  # ... and this times the mean square of its change from step to step (TAR)
    embedding_range: float = 0.1  # embeddings begin within ± this (Merity et al. 2018); in short training, 1 is quicker
    max_length: int = 1_000_000  # tokens that the model can read; a recurrent network has no limit of its own

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "d_hidden", "n_layers", "max_length")
        not_negative(self, "d_last", "activation_penalty", "change_penalty")
        share(self, "dropout", "recurrent_dropout", "embedding_dropout")
        share_or_none(self, "input_dropout", "output_dropout")
        positive(self, "embedding_range")
        choose(CELLS, self.cell, "cell")

    @property
    def dropouts(self) -> LayerDropout:
        before, after = (self.dropout if p < 0 else p for p in (self.input_dropout, self.output_dropout))
        return LayerDropout(before, self.dropout, after, self.locked)


class Recurrent(Reader["RecurrentState"]):
    """Embeddings, then layers of cells: Merity et al. 2018 ("Regularizing and Optimizing LSTM Language Models").

    It reads words, or what another input table makes rows of.  The loss of `penalized_carry` is section 4.6 there:
    α mean(m * h_t)² + β mean(h_{t+1} - h_t)², with m what dropout leaves.
    """

    config: RecurrentConfig
    can_carry = True
    is_sequential = takes_inputs = is_capturable = True

    def __init__(self, config: RecurrentConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
        self.bidirectional = self.sees_future = c.bidirectional
        self.embedding = words_or(inputs, c.vocab_size, c.d_model, dropout=c.embedding_dropout)
        self.stack = self.make_stack(c.d_model)
        if self.embedding.vectors is not None:
            nn.init.uniform_(self.embedding.vectors, -c.embedding_range, c.embedding_range)  # section 5: 0.1

    def make_stack(self, d_in: int) -> RecurrentStack:
        c = self.config
        widths = [d_in, *[c.d_hidden] * (c.n_layers - 1), c.d_last or c.d_hidden]
        return RecurrentStack(CELLS[c.cell], widths, c.bidirectional, c.dropouts, c.recurrent_dropout)

    def read_rows_of(self, inputs: InputTable) -> None:
        """The layers are made anew, as wide as these rows."""
        self.embedding, self.stack = inputs, self.make_stack(inputs.d_out)

    @property
    def d_out(self) -> int:
        return self.stack.d_out

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.stack(self.embedding(tokens, layout), layout)

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        return self.stack.cells()

    def multiplications(self, length: int) -> float:
        return n_weights(self.stack)

    def carry(self, tokens: Tensor, layout: Layout, state: "RecurrentState | None") -> tuple[Tensor, "RecurrentState"]:
        """Truncated back-propagation through time: read on from a state, whose past gets no gradient.

        All sequences of a call have one length, as the pieces of a text cut into columns have.
        """
        before = self.start_of(layout, state)
        hidden, layers = self.stack.carry(self.embedding(tokens, layout), layout, before.layers)
        return hidden, before.after(layers, layout)

    def penalized_carry(
        self, tokens: Tensor, layout: Layout, state: "RecurrentState | None"
    ) -> tuple[Tensor, "RecurrentState", Tensor]:
        c = self.config
        if not (c.activation_penalty or c.change_penalty) or layout.longest == 0:
            return super().penalized_carry(tokens, layout, state)
        before = self.start_of(layout, state)
        hidden, layers = self.stack.hidden(self.embedding(tokens, layout), layout, before.layers)
        rows = self.stack.after(hidden)
        penalty = c.activation_penalty * rows.square().mean()
        if layout.longest > 1:
            penalty = penalty + c.change_penalty * hidden.diff(dim=1).square().mean()
        return layout.flatten(rows), before.after(layers, layout), penalty

    def start_of(self, layout: Layout, state: "RecurrentState | None") -> "RecurrentState":
        """The state that sequences of one length go on from."""
        if layout.longest * layout.n_sequences != layout.positions.numel():
            raise RegardError("a state is carried over from sequences of one length; these differ")
        return self.start(layout.n_sequences) if state is None else state

    def state_of(self, tensors: dict[str, Tensor]) -> "RecurrentState":
        layers = [tensors[f"layer.{i}"] for i in range(self.config.n_layers)]
        return RecurrentState(layers, tensors["lengths"])

    def start(self, n_rows: int, room: int = 0) -> "RecurrentState":
        """Empty states.  They take no room, however long the rows grow."""
        if self.bidirectional:
            raise RegardError("a bidirectional net reads whole sequences: it cannot go on from a state or write text")
        weight = next(self.stack.parameters())
        lengths = torch.zeros(n_rows, dtype=torch.long, device=weight.device)
        return RecurrentState(self.stack.start(n_rows, weight), lengths)

    def step(self, tokens: Tensor, state: "RecurrentState") -> Tensor:
        hidden, after = self.carry(tokens, state.queries(tokens.shape[1]), state)
        state.become(after.layers, after.lengths)
        return hidden


class RecurrentState(RowState):
    """All that a recurrent net remembers: one state per layer, (S, rows, M), whatever the length."""

    def __init__(self, layers: list[Tensor], lengths: Tensor):
        self.layers = layers
        self.lengths = lengths

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint."""
        return {**{f"layer.{i}": layer for i, layer in enumerate(self.layers)}, "lengths": self.lengths}

    def after(self, layers: list[Tensor], layout: Layout) -> "RecurrentState":
        """The state when all of a layout was read; its past gets no gradient."""
        return RecurrentState([layer.detach() for layer in layers], self.lengths + layout.longest)

    def become(self, layers: list[Tensor], lengths: Tensor) -> None:
        """The state after a step."""
        self.layers, self.lengths = layers, lengths

    def select(self, rows: Tensor) -> None:
        self.layers = [layer.index_select(1, rows) for layer in self.layers]
        self.lengths = self.lengths[rows]

    @property
    def rooms(self) -> tuple[int, ...]:
        return ()

    def pooled(self, n_rows: int, rooms: tuple[int, ...]) -> "RecurrentState":
        layers = [layer.new_zeros(layer.shape[0], n_rows, layer.shape[2]) for layer in self.layers]
        return PooledRecurrentState(layers, self.lengths.new_zeros(n_rows))

    def put(self, rows: Tensor, other: "RecurrentState") -> None:
        for layer, new in zip(self.layers, other.layers, strict=True):
            layer[:, rows] = new.to(layer.dtype)
        self.lengths[rows] = other.lengths

    def taken(self, rows: Tensor) -> "RecurrentState":
        return RecurrentState([layer.index_select(1, rows) for layer in self.layers], self.lengths[rows])

    def changing(self) -> list[Tensor]:
        return [*self.layers, self.lengths]

    def truncate(self, lengths: Tensor) -> None:
        if (lengths < self.lengths).any():
            raise RegardError("a recurrent net keeps its last state only, and cannot take tokens back")

    def join(self, other: "RecurrentState") -> None:
        self.layers = [torch.cat(pair, dim=1) for pair in zip(self.layers, other.layers, strict=True)]
        self.lengths = torch.cat([self.lengths, other.lengths])


class PooledRecurrentState(RecurrentState):
    """A state whose tensors stay in place, as a CUDA graph needs it."""

    def become(self, layers: list[Tensor], lengths: Tensor) -> None:
        for mine, new in zip(self.changing(), [*layers, lengths], strict=True):
            mine.copy_(new)

    def reorder(self, rows: Tensor) -> None:
        self.become([layer.index_select(1, rows) for layer in self.layers], self.lengths[rows])
