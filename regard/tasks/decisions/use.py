"""A model that plays: many episodes at once, each in an environment of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.distribution import draw, reshape
from regard.errors import ConfigError, DataError, RegardError
from regard.games.game import Action, Environment, GameState
from regard.models.decisions import Decider
from regard.nn.layout import Ragged
from regard.tasks.decisions.batches import Symbols, as_numbers
from regard.tasks.decisions.verbs import Played

AT_A_TIME = 500  # episodes
MOST_STEPS = 10_000  # of an episode that does not end


@dataclass
class Seat:
    """One episode while it is played: what the model has seen of it, and what is told of it."""

    environment: Environment
    seed: int
    asked: float | None
    board: Callable[[], str] | None  # None: nobody looks on
    shown: list[GameState] = field(default_factory=list)  # states as the game gives them ...
    states: list[np.ndarray] = field(default_factory=list)  # ... and as the model reads them
    to_go: list[float] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    boards: list[str] = field(default_factory=list)

    def see(self, state: GameState, read: np.ndarray) -> None:
        """A new step; its action is not chosen yet."""
        self.to_go.append((self.asked or 0.0) - sum(self.rewards))
        self.shown.append(state)
        self.states.append(read)
        if self.board is not None:
            self.boards.append(self.board())


@dataclass(frozen=True)
class PlayTable:
    """What all seats share: the model, how it reads states, how it chooses and how actions are told."""

    model: Decider
    symbols: Symbols
    context: int  # steps that a decision sees
    lowest: tuple[float, ...]  # of continuous actions, as training had them
    highest: tuple[float, ...]
    decoding: DecodingConfig
    action_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.decoding.beam > 1:
            raise ConfigError(
                f"a game is played one action after the other: set decoding.beam = 1, not {self.decoding.beam}"
            )
        if self.decoding.sample and not self.model.form.n_actions:
            raise ConfigError("actions that are numbers are not drawn: set decoding.sample = false")

    def read(self, state: GameState) -> np.ndarray:
        row = np.asarray(state).reshape(1, -1)
        form, is_symbols = self.model.form, row.dtype.kind == "U"
        if row.shape[1] != form.d_state or is_symbols != bool(form.n_symbols):
            kind = "symbols" if form.n_symbols else "numbers"
            given = f"{row.shape[1]} {'symbols' if is_symbols else 'numbers'}"
            raise DataError(f"the game shows states of {given}, and the run was trained on {form.d_state} {kind}")
        return as_numbers(row, self.symbols)[0]

    @torch.no_grad()
    def outputs(self, seats: Sequence[Seat]) -> Tensor:
        """What the model says about the next action of each seat; all are at the same step.  A critic is heard, too."""
        form, now = self.model.form, len(seats[0].states)
        first = max(0, now - self.context)
        times = torch.arange(first, now).repeat(len(seats))
        to_go = torch.tensor([seat.to_go[first:] for seat in seats]).flatten()
        states = torch.from_numpy(np.concatenate([seat.states[first:] for seat in seats]))
        unknown = np.zeros(form.d_action, np.float32)  # the action that is to be chosen, and that no state sees
        actions = torch.from_numpy(np.concatenate([[*seat.actions[first:], unknown] for seat in seats]))
        rows = form.rows(times, to_go, states, actions).to(self.model.device)
        layout = Ragged([(now - first) * form.n_rows] * len(seats), self.model.device)
        hidden = self.model.states(rows, layout).unflatten(0, (len(seats), -1))[:, -1]
        if form.has_critic:
            expected = self.model.expect(hidden).float().cpu() * form.return_scale
            for seat, value in zip(seats, expected.tolist(), strict=True):
                seat.expected.append(value)
        return self.model.to_action(hidden).float().cpu()

    def choose(self, seats: Sequence[Seat]) -> list[Action]:
        """The most probable action, or a drawn one; of continuous actions the mean, within what training had."""
        outputs, form = self.outputs(seats), self.model.form
        if not outputs.isfinite().all():
            step = len(seats[0].states)
            raise RegardError(
                f"step {step}: the model's output is not a finite number; ask for a return like those of its training "
                f"data (±{form.return_scale:g}), and see that the game shows finite states"
            )
        if not form.n_actions:
            numbers = outputs * torch.tensor(form.action_deviation) + torch.tensor(form.action_mean)
            return list(np.clip(numbers.numpy(), *np.array([self.lowest, self.highest], np.float32)))
        if not self.decoding.sample:
            return [int(best) for best in outputs.argmax(-1)]
        lots = [np.random.default_rng([self.decoding.seed, seat.seed, len(seat.states)]).random() for seat in seats]
        drawn, _ = draw(reshape(outputs, self.decoding), torch.tensor(lots, dtype=torch.float64))
        return [int(action) for action in drawn]

    def play(self, seats: Sequence[Seat]) -> list[Played]:
        for seat in seats:
            state, _ = seat.environment.reset(seed=seat.seed)
            seat.see(state, self.read(state))
        live = list(seats)
        while live and len(live[0].rewards) < MOST_STEPS:
            still = []
            for seat, action in zip(live, self.choose(live), strict=True):
                state, reward, ended, ran_out, _ = seat.environment.step(action)
                seat.actions.append(np.array([action], np.float32).reshape(-1))
                seat.rewards.append(float(reward))
                if not (ended or ran_out):
                    seat.see(state, self.read(state))
                    still.append(seat)
                elif seat.board is not None:
                    seat.boards.append(seat.board())
            live = still
        return [self.told(seat) for seat in seats]

    def told(self, seat: Seat) -> Played:
        form, notes = self.model.form, []
        if len(seat.rewards) > form.n_times:
            notes.append(f"longer than any training episode: {len(seat.rewards)} steps, not {form.n_times}")
        if len(seat.rewards) == MOST_STEPS:
            notes.append(f"stopped after {MOST_STEPS:,} steps")
        whole = [int(action[0]) for action in seat.actions]
        return Played(
            asked=seat.asked,
            reached=sum(seat.rewards),
            seed=seat.seed,
            states=[np.asarray(state).reshape(-1).tolist() for state in seat.shown],
            actions=whole if form.n_actions else [action.tolist() for action in seat.actions],
            names=[name_of(action, bool(form.n_actions), self.action_names) for action in seat.actions],
            rewards=seat.rewards,
            expected=seat.expected,
            boards=seat.boards,
            notes=notes,
        )


def name_of(action: np.ndarray, is_discrete: bool, names: Sequence[str]) -> str:
    """ "up", or "0.25 -1" of a continuous action."""
    if not is_discrete:
        return " ".join(f"{number:.3g}" for number in action)
    number = int(action.reshape(-1)[0])
    return names[number] if number < len(names) else str(number)


def name_of_state(state: Sequence[str] | Sequence[float] | np.ndarray) -> str:
    """ "key +2 -1", or "0.25 -1"; symbols that are empty do not count."""
    return " ".join(part if isinstance(part, str) else f"{part:.3g}" for part in state if part != "")
