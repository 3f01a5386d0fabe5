"""Recurrent layers: each cell is its equation (`step`) and, with the same weights, PyTorch's fused kernel (`forward`).

Letters of these equations: x_t the input, h_t the hidden state, U and V the weights of either, M the width of h.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.nn.layer_dropout import LayerDropout
from regard.nn.layout import Gather, Layout
from regard.nn.masked_weights import MaskedWeights

STATES = ("hidden", "cell")  # the parts that a cell remembers: h, and in an LSTM also C


class GateWeights(NamedTuple):
    """Of a cell's gates, one below the other, as the kernels keep them.  The b of the equations is b_U + b_V."""

    U: Tensor  # gates x M, D
    V: Tensor  # gates x M, M
    b_U: Tensor
    b_V: Tensor

    def of_input(self, x: Tensor) -> Tensor:
        """U x_t + b_U, for all gates at once."""
        return F.linear(x, self.U, self.b_U)

    def of_state(self, h: Tensor) -> Tensor:
        """V h_{t-1} + b_V, for all gates at once."""
        return F.linear(h, self.V, self.b_V)

    def in_one_piece(self) -> list[Tensor | None]:
        """One after the other in memory, as cuDNN needs them; otherwise it copies them itself, and warns."""
        flat = torch.cat([weight.flatten() for weight in self])
        parts = flat.split([weight.numel() for weight in self])
        return [part.view_as(weight) for part, weight in zip(parts, self, strict=True)]


class Cell(nn.Module, MaskedWeights, ABC):
    """One layer, read from left to right.  A state is (S, B, M): h_t, and in an LSTM also C_t."""

    n_states = 1
    fused: Callable[..., nn.RNNBase]  # PyTorch's kernel

    def __init__(self, d_in: int, d_hidden: int, recurrent_dropout: float = 0.0, **options: str):
        super().__init__()
        self.U: nn.Module | None = None  # what fine-tuning makes of the kernel's weights (`nn/lora.py`), if anything
        self.V: nn.Module | None = None
        self.kernel = self.fused(d_in, d_hidden, batch_first=True, **options)  # it holds the weights
        self.recurrent_dropout = recurrent_dropout

    @abstractmethod
    def parts(self, x: Tensor, state: Tensor, weights: GateWeights) -> dict[str, Tensor]:
        """x_t (B, D) and the state before it -> its gates, its candidate and the states after it, (B, M) each."""

    def step(self, x: Tensor, state: Tensor, weights: GateWeights) -> Tensor:
        """x_t (B, D) and the state before it -> the state after it."""
        return self.state_of(self.parts(x, state, weights))

    def state_of(self, parts: dict[str, Tensor]) -> Tensor:
        return torch.stack([parts[name] for name in STATES[: self.n_states]])

    def weights(self) -> GateWeights:
        """As the equations read them.  In training, `recurrent_dropout` leaves out entries of V, the same at all steps:
        DropConnect (Wan et al. 2013), as in the AWD-LSTM (Merity et al. 2018, section 2)."""
        U, V, b_U, b_V = self.kernel.parameters()
        U, V = U if self.U is None else self.U(U), V if self.V is None else self.V(V)
        return GateWeights(U, self.without_some(V, self.recurrent_dropout) if self.training else V, b_U, b_V)

    def readable(self, x: Tensor, state: Tensor, added: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, D) and a state -> h_1 ... h_T (B, T, M) and the last state: the equation, step by step.

        What is `added` (T, S, B, M) to the states changes all that comes after.
        """
        weights, hidden = self.weights(), []
        for t, x_t in enumerate(x.unbind(1)):
            state = self.step(x_t, state, weights)
            state = state if added is None else state + added[t]
            hidden.append(state[0])
        return torch.stack(hidden, 1), state

    def every_part(self, x: Tensor, state: Tensor) -> dict[str, Tensor]:
        """x (B, T, D) and a state -> its `parts` at all steps, (B, T, M) each."""
        weights, steps = self.weights(), []
        for x_t in x.unbind(1):
            parts = self.parts(x_t, state, weights)
            state = self.state_of(parts)
            steps.append(parts)
        return {name: torch.stack([parts[name] for parts in steps], 1) for name in steps[0]}

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The same by the fused kernel, without autocast: it would give cuDNN float16, which loses small gradients."""
        others = self.U or self.V or (self.training and self.recurrent_dropout)
        dtype = next(self.kernel.parameters()).dtype
        state = state.to(dtype).contiguous()
        parts = state if self.n_states == 1 else (state[:1], state[1:])  # an LSTM's kernel has h and C apart
        # Called as a module, because torch.compile leaves it alone then; the bare function it would unroll.
        with (
            torch.autocast(x.device.type, enabled=False),
            reading(self.kernel, self.weights()) if others else nullcontext(),
        ):
            hidden, last = self.kernel(x.to(dtype), parts)
        return hidden, last if self.n_states == 1 else torch.cat(last)

    def zero_state(self, n_rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(self.n_states, n_rows, self.kernel.hidden_size)


@contextmanager
def reading(kernel: nn.RNNBase, weights: GateWeights) -> Iterator[None]:
    """While this lasts a kernel reads these weights in place of its own, which on a GPU must stay where they are."""
    kernel._flat_weights = weights.in_one_piece()
    try:
        yield
    finally:
        kernel._flat_weights = list(kernel.parameters())


class RNN(Cell):
    """h_t = tanh(V h_{t-1} + U x_t + b)  (Elman 1990)"""

    fused = nn.RNN

    def parts(self, x: Tensor, state: Tensor, weights: GateWeights) -> dict[str, Tensor]:
        return {"hidden": torch.tanh(weights.of_input(x) + weights.of_state(state[0]))}


class ReLURNN(Cell):
    """h_t = max(0, V h_{t-1} + U x_t + b), where V begins as the identity  (Le et al. 2015)"""

    fused = nn.RNN

    def __init__(self, d_in: int, d_hidden: int, recurrent_dropout: float = 0.0):
        super().__init__(d_in, d_hidden, recurrent_dropout, nonlinearity="relu")
        nn.init.eye_(self.kernel.weight_hh_l0)  # type: ignore[arg-type]

    def parts(self, x: Tensor, state: Tensor, weights: GateWeights) -> dict[str, Tensor]:
        return {"hidden": F.relu(weights.of_input(x) + weights.of_state(state[0]))}


class LSTM(Cell):
    """Each gate, with weights of its own:   Γ = σ(U x_t + V h_{t-1} + b)
    candidate                      C̃_t = tanh(U x_t + V h_{t-1} + b)
    forget the old, let in the new  C_t = Γ_forget * C_{t-1} + Γ_update * C̃_t
    output                          h_t = Γ_output * tanh(C_t)

    (Hochreiter and Schmidhuber 1997; the forget gate: Gers et al. 2000)
    """

    n_states = 2
    fused = nn.LSTM

    def __init__(self, d_in: int, d_hidden: int, recurrent_dropout: float = 0.0):
        super().__init__(d_in, d_hidden, recurrent_dropout)
        # Forget little at first, or no gradient comes from afar (Gers et al. 2000; Jozefowicz et al. 2015).
        with torch.no_grad():
            self.kernel.bias_hh_l0[d_hidden : 2 * d_hidden] += 1  # type: ignore[operator, index]

    def parts(self, x: Tensor, state: Tensor, weights: GateWeights) -> dict[str, Tensor]:
        h, c = state
        *gates, candidate, output = (weights.of_input(x) + weights.of_state(h)).chunk(4, dim=-1)
        update, forget, output = (torch.sigmoid(gate) for gate in (*gates, output))
        candidate = torch.tanh(candidate)
        c = forget * c + update * candidate
        h = output * torch.tanh(c)
        return {"forget": forget, "update": update, "output": output, "candidate": candidate, "cell": c, "hidden": h}


class GRU(Cell):
    """Each gate, with weights of its own:   Γ = σ(U x_t + V h_{t-1} + b)
    candidate        h̃_t = tanh(U x_t + b_U + Γ_reset * (V h_{t-1} + b_V))
    keep or replace  h_t = Γ_update * h_{t-1} + (1 - Γ_update) * h̃_t

    (Cho et al. 2014, who reset h_{t-1} before the product with V; after it, as here, the product is one for all gates)
    """

    fused = nn.GRU

    def parts(self, x: Tensor, state: Tensor, weights: GateWeights) -> dict[str, Tensor]:
        (h,) = state
        x_reset, x_update, x_candidate = weights.of_input(x).chunk(3, dim=-1)
        h_reset, h_update, h_candidate = weights.of_state(h).chunk(3, dim=-1)
        reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
        candidate = torch.tanh(x_candidate + reset * h_candidate)
        h = update * h + (1 - update) * candidate
        return {"reset": reset, "update": update, "candidate": candidate, "hidden": h}


CELLS: dict[str, type[Cell]] = {"rnn": RNN, "relu_rnn": ReLURNN, "lstm": LSTM, "gru": GRU}


class RecurrentStack(nn.Module):
    """Layers of cells, h^l_t = f(U^l h^{l-1}_t + V^l h^l_{t-1} + b^l), with dropout before, between and after them.

    `widths` are those of the input and of every layer.  A bidirectional layer has a second cell that reads from right
    to left, from each sequence's own last token; h_t is both states side by side  (Schuster and Paliwal 1997).
    """

    forwards: Sequence[Cell]
    backwards: Sequence[Cell]

    def __init__(
        self,
        cell: type[Cell],
        widths: Sequence[int],
        bidirectional: bool,
        dropouts: LayerDropout,
        recurrent_dropout: float = 0.0,
    ):
        super().__init__()
        ways = 2 if bidirectional else 1
        d_in = [widths[0], *(ways * width for width in widths[1:-1])]
        self.bidirectional = bidirectional
        self.d_out = ways * widths[-1]
        self.before, self.between, self.after = dropouts.modules()

        def layers() -> nn.ModuleList:
            return nn.ModuleList(cell(d, width, recurrent_dropout) for d, width in zip(d_in, widths[1:], strict=True))

        self.forwards = layers()  # type: ignore[assignment]
        self.backwards = layers() if bidirectional else nn.ModuleList()  # type: ignore[assignment]

    def forward(self, rows: Tensor, layout: Layout) -> Tensor:
        """(N, D) -> (N, d_out), every sequence from an empty state."""
        if not self.bidirectional:
            return self.carry(rows, layout, self.start(layout.n_sequences, rows))[0]
        if layout.longest == 0:
            return rows.new_zeros(*rows.shape[:-1], self.d_out)
        x = layout.pad(rows)
        for ahead, back, dropout in zip(self.forwards, self.backwards, self.dropouts(), strict=True):
            x = dropout(x)
            left, _ = ahead(x, ahead.zero_state(len(x), x))
            right, _ = back(reverse(x, layout), back.zero_state(len(x), x))
            x = torch.cat([left, reverse(right, layout)], dim=-1)
        return layout.flatten(self.after(x))

    def dropouts(self) -> list[nn.Module]:
        """Of what each layer reads."""
        return [self.before, *[self.between] * (len(self.forwards) - 1)]

    def carry(self, rows: Tensor, layout: Layout, states: Iterable[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Go on from the states of the layers; the new ones are those after `layout.longest` steps."""
        if layout.longest == 0:
            return rows.new_zeros(*rows.shape[:-1], self.d_out), list(states)
        hidden, new_states = self.hidden(rows, layout, states)
        return layout.flatten(self.after(hidden)), new_states

    def hidden(self, rows: Tensor, layout: Layout, states: Iterable[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`carry`, with h_t of the last layer (B, T, M) as it is before dropout."""
        assert not self.bidirectional
        x, new_states = layout.pad(rows), []
        for layer, state, dropout in zip(self.forwards, states, self.dropouts(), strict=True):
            x, state = layer(dropout(x), state)
            new_states.append(state)
        return x, new_states

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """(layer, direction, cell); direction 0 reads from left to right, 1 from right to left."""
        for direction, layers in enumerate((self.forwards, self.backwards)):
            yield from ((layer, direction, cell) for layer, cell in enumerate(layers))

    def weights(self) -> list[GateWeights]:
        """Of all layers, for one pass that goes `step` by step: what `recurrent_dropout` leaves out is drawn here."""
        return [cell.weights() for cell in self.forwards]

    def step(self, x: Tensor, states: Iterable[Tensor], weights: Iterable[GateWeights]) -> tuple[Tensor, list[Tensor]]:
        """x_t (B, D) and the states before it -> h_t of the last layer, and the states after it: `carry`, by the
        equations.  Without autocast, as the kernels."""
        after: list[Tensor] = []
        with torch.autocast(x.device.type, enabled=False):
            for cell, state, own, dropout in zip(self.forwards, states, weights, self.dropouts(), strict=True):
                x = dropout(x.to(own.U.dtype))
                after.append(cell.step(x, state.to(own.U.dtype), own))
                x = after[-1][0]
            return self.after(x), after

    def start(self, n_rows: int, like: Tensor) -> list[Tensor]:
        return [layer.zero_state(n_rows, like) for layer in self.forwards]


def reverse(padded: Tensor, layout: Layout) -> Tensor:
    """(B, T, D) with each sequence's tokens from last to first; padding stays after them.  Twice, it is undone."""
    if layout.is_full:
        return padded.flip(1)
    steps = torch.arange(layout.longest, device=padded.device)
    mirrored = layout.lengths[:, None] - 1 - steps
    columns = torch.where(mirrored >= 0, mirrored, steps)  # B T
    rows = torch.arange(layout.n_sequences, device=padded.device)[:, None] * layout.longest
    return Gather.apply(padded.flatten(0, 1), (rows + columns).flatten()).view_as(padded)
