"""Decisions (Chen et al. 2021): steps of a game as rows of return, state and action, and actions read off states."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.inputs import InputTable
from regard.models.heads import ReaderHead
from regard.models.interface import Reader
from regard.nn.layout import Layout
from regard.nn.linear import Linear


@dataclass(frozen=True, kw_only=True)
class StepForm:
    """How a step of a game becomes rows: the return to go (if decisions depend on it), the state, then the action.

    A row is its time step, then its numbers, then zeros: (1 + d).
    """

    n_symbols: tuple[int, ...]  # of each column of a state, the unknown one included; (): states are numbers
    state_mean: tuple[float, ...]  # of the training data, for each number
    state_deviation: tuple[float, ...]
    n_actions: int  # 0: an action is numbers
    action_mean: tuple[float, ...]
    action_deviation: tuple[float, ...]
    has_return: bool
    return_scale: float  # returns are divided by it
    n_times: int  # time steps with a vector of their own
    has_critic: bool = False  # the return to go is also predicted

    @property
    def d_state(self) -> int:
        return len(self.n_symbols or self.state_mean)

    @property
    def d_action(self) -> int:
        """Numbers of an action as an input: a discrete one is its own number."""
        return 1 if self.n_actions else len(self.action_mean)

    @property
    def d_row(self) -> int:
        return 1 + max(1, self.d_state, self.d_action)

    @property
    def n_rows(self) -> int:
        """Of a step."""
        return 2 + self.has_return

    @property
    def state_row(self) -> int:
        """Which of the rows of a step: off it the action is read, which it does not see."""
        return self.n_rows - 2

    def rows(self, times: Tensor, returns: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Steps (S), with states (S, d_state) and actions (S, d_action) -> rows (S * n_rows, d_row)."""
        rows = torch.zeros(len(times), self.n_rows, self.d_row)
        rows[:, :, 0] = times[:, None]
        if self.has_return:
            rows[:, 0, 1] = returns / self.return_scale
        rows[:, self.state_row, 1 : 1 + self.d_state] = states
        rows[:, -1, 1 : 1 + self.d_action] = actions
        return rows.flatten(0, 1)


class SymbolVectors(nn.Embedding):
    """Symbols (…, columns) -> the sum of a learned vector for each."""

    starts: Tensor

    def __init__(self, n_symbols: tuple[int, ...], d_out: int):
        super().__init__(sum(n_symbols), d_out)
        starts = torch.tensor([0, *n_symbols[:-1]]).cumsum(0)
        self.register_buffer("starts", starts, persistent=False)
        nn.init.normal_(self.weight, std=d_out**-0.5)

    def forward(self, symbols: Tensor) -> Tensor:
        return super().forward(symbols.long() + self.starts).sum(-2)


class Standardized(Linear):
    """W (x - mean) / deviation + b, by the mean and the deviation of the training data"""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...], d_out: int):
        super().__init__(max(1, len(mean)), d_out)
        self.register_buffer("mean", torch.tensor(mean or (0.0,)), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation or (1.0,)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward((x - self.mean) / self.deviation)


class StepRows(InputTable):
    """x_t = v(time) + (W_r return, or S state, or A action), each kind of row with weights of its own
    (Chen et al. 2021, algorithm 1)

    A kind computes all rows, and those of other kinds are left out: they hold 0 there, which every kind can read.
    """

    def __init__(self, form: StepForm, d_out: int):
        super().__init__()
        self.form, self.width = form, d_out
        self.times = nn.Embedding(form.n_times, d_out)
        nn.init.normal_(self.times.weight, std=d_out**-0.5)
        self.returns = Linear(1, d_out) if form.has_return else None
        self.states: nn.Module = (
            SymbolVectors(form.n_symbols, d_out)
            if form.n_symbols
            else Standardized(form.state_mean, form.state_deviation, d_out)
        )
        self.actions: nn.Module = (
            SymbolVectors((form.n_actions,), d_out)
            if form.n_actions
            else Standardized(form.action_mean, form.action_deviation, d_out)
        )

    @property
    def d_out(self) -> int:
        return self.width

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        kinds = (layout.positions % self.form.n_rows)[..., None]
        is_state, is_action = kinds == self.form.state_row, kinds == self.form.n_rows - 1
        values = inputs[..., 1:]
        states = self.states(values[..., : max(1, self.form.d_state)] * is_state)
        actions = self.actions(values[..., : max(1, self.form.d_action)] * is_action)
        x = torch.where(is_state, states, actions)
        if self.returns is not None:
            x = torch.where(is_state | is_action, x, self.returns(values[..., :1]))
        return x + self.times(inputs[..., 0].long().clamp(max=self.form.n_times - 1))


class Decider(ReaderHead):
    """P(action_t | the steps before, return_t, state_t) = softmax(W h + b), with h the row of state t; a continuous
    action is W h + b itself, in units of the training data.  A critic (section 5.5) also predicts the return to
    go, w h + b."""

    def __init__(self, reader: Reader, form: StepForm, context: int):
        if reader.sees_future:
            raise ConfigError("a decision must not see the future: it needs causal = true, bidirectional = false")
        if context * form.n_rows > reader.max_length:
            raise ConfigError(
                f"{context} steps are {context * form.n_rows} rows, and model.max_length is {reader.max_length}; "
                "raise it, or lower task.context"
            )
        reader.take_inputs(StepRows(form, reader.embedding.d_out))
        super().__init__(reader)
        self.form, self.is_recordable = form, False
        self.to_action = nn.Linear(reader.d_out, form.n_actions or max(1, form.d_action))
        self.to_return = nn.Linear(reader.d_out, 1) if form.has_critic else None

    def states(self, inputs: Tensor, layout: Layout) -> Tensor:
        """Rows (S * n_rows, d_row) of whole steps -> the hidden row of each state (S, D)."""
        return self.reader(inputs, layout).unflatten(0, (-1, self.form.n_rows))[:, self.form.state_row]

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        """For each step logits (S, actions), or the numbers of an action (S, d_action)."""
        return self.to_action(self.states(inputs, layout))

    def expect(self, states: Tensor) -> Tensor:
        """The return to go that a critic expects (S), in units of the scale, off the hidden rows of states."""
        assert self.to_return is not None
        return self.to_return(states).squeeze(-1)
