"""The [task] table of a recipe for decisions, and what the training data settle of it."""

from dataclasses import dataclass, replace

import numpy as np

from regard.checks import at_least, at_most, not_negative, one_of, positive_share
from regard.data.episodes.episodes import EpisodeSet
from regard.errors import ConfigError
from regard.games.table import check_game
from regard.models.decisions import Decider, StepForm
from regard.models.interface import AnyReader
from regard.tasks.decisions.batches import best_of
from regard.tasks.setup import TaskConfig

N_TARGETS = 10  # returns that `evaluate` asks for, where no setting says which
LEAST_DEVIATION = 1e-6  # a number that never changes is divided by 1


@dataclass(frozen=True, kw_only=True)
class DecisionsConfig(TaskConfig):
    metric: str = "loss"  # the validation figure that chooses the best checkpoint: `loss` or `return`
    # what a run plays: `key-to-door`, `luck`, `steer`, or `gymnasium:CartPole-v1`; empty: it only predicts actions
    game: str = ""
    context: int = 0  # steps that a decision looks back at, itself included; 0: those of the longest training episode
    conditioned: bool = True  # decisions depend on the return to go (Decision Transformer); `false`: behavior cloning
    # training draws all returns equally often (in ten levels from lowest to highest), so that what a rare one takes is
    # learned early; where `context` holds whole episodes, P(action | return, past) stays what it is
    even: bool = False
    critic: bool = False  # also predict the return to go, from the past alone: needs `conditioned = false`
    top: float = 1.0  # learn from this share of the training episodes alone, those with the highest returns
    asked: float | None = None  # the return that is asked for in play; left out: the highest of the training data
    targets: tuple[float, ...] = ()  # returns that `evaluate` asks for; empty: up to ten from lowest to highest
    episodes: int = 100  # that `evaluate` plays for each target
    validation_episodes: int = 0  # played at each validation, asked for `asked`, for the figure `return`; 0: none

    # What the training data settle.
    symbols: tuple[tuple[str, ...], ...] = ()  # of each column of a state; empty: states are numbers, or not yet known
    state_mean: tuple[float, ...] = ()  # of each number of a state
    state_deviation: tuple[float, ...] = ()  # of each number of a state
    n_actions: int = 0  # how many actions there are; 0: an action is numbers
    action_mean: tuple[float, ...] = ()  # of each number of an action
    action_deviation: tuple[float, ...] = ()  # of each number of an action
    action_lowest: tuple[float, ...] = ()  # of each number of an action
    action_highest: tuple[float, ...] = ()  # of each number of an action
    return_scale: float = 0.0  # returns are divided by this; 0: by the largest of the training data
    max_steps: int = 0  # time steps with a vector of their own, later ones share the last; 0: the longest episode's

    def __post_init__(self) -> None:
        one_of(self, ("loss", "return"), "metric")
        not_negative(self, "context", "validation_episodes", "n_actions", "return_scale", "max_steps")
        at_most(self, 1_000_000, "context", "episodes", "validation_episodes", "n_actions", "max_steps")
        at_least(self, 1, "episodes")
        positive_share(self, "top")
        if self.metric == "return" and not (self.validation_episodes and self.game):
            raise ConfigError('metric = "return" is found by playing: set game, and validation_episodes above 0')
        if self.even and not self.conditioned:
            raise ConfigError(
                "even draws episodes by their returns, which change what is imitated: set conditioned = true"
            )
        if self.game:
            check_game(self.game)
        if self.critic and self.conditioned:
            raise ConfigError("a critic that is told the return has nothing to predict: set conditioned = false")
        for name, first, second in (
            ("state", self.state_mean, self.state_deviation),
            ("action", self.action_mean, self.action_deviation),
        ):
            if len(first) != len(second) or min(second, default=1.0) <= 0:
                raise ConfigError(f"{name}_deviation must have a number above 0 for each of {name}_mean")

    @property
    def form(self) -> StepForm:
        return StepForm(
            n_symbols=tuple(1 + len(column) for column in self.symbols),
            state_mean=self.state_mean,
            state_deviation=self.state_deviation,
            n_actions=self.n_actions,
            action_mean=self.action_mean,
            action_deviation=self.action_deviation,
            has_return=self.conditioned,
            return_scale=self.return_scale or 1.0,
            n_times=max(1, self.max_steps),
            has_critic=self.critic,
        )

    @property
    def window(self) -> int:
        return max(1, self.context) * self.form.n_rows

    def build(self, reader: AnyReader) -> Decider:
        return Decider(reader, self.form, self.context)


def settled(config: DecisionsConfig, train: EpisodeSet) -> DecisionsConfig:
    """The settings, with what the episodes that are learned from say where they leave it open."""
    c = config
    if c.top < 1:
        train = best_of(train, c.top)
    longest, returns = int(train.lengths.max()), train.returns
    c = replace(
        c,
        context=c.context or longest,
        max_steps=c.max_steps or longest,
        return_scale=c.return_scale or float(np.abs(returns).max()) or 1.0,
        asked=float(returns.max()) if c.asked is None else c.asked,
        targets=c.targets or spread(returns),
    )
    if train.has_symbols:
        c = replace(c, symbols=c.symbols or tuple(tuple(np.unique(column).tolist()) for column in train.states.T))
    elif not c.state_mean:
        mean, deviation = moments(train.states)
        c = replace(c, state_mean=mean, state_deviation=deviation)
    if train.is_discrete:
        return replace(c, n_actions=c.n_actions or 1 + int(train.actions.max()))
    if not c.action_mean:
        mean, deviation = moments(train.actions)
        c = replace(c, action_mean=mean, action_deviation=deviation)
    lowest, highest = (tuple(rows.tolist()) for rows in (train.actions.min(0), train.actions.max(0)))
    return replace(c, action_lowest=c.action_lowest or lowest, action_highest=c.action_highest or highest)


def moments(rows: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the deviation of each column, with 1 for one that never changes."""
    deviation = rows.std(0)
    return tuple(rows.mean(0).tolist()), tuple(np.where(deviation > LEAST_DEVIATION, deviation, 1.0).tolist())


def spread(returns: np.ndarray) -> tuple[float, ...]:
    """All returns, if they are few; otherwise some from the lowest to the highest."""
    distinct = np.unique(returns)
    chosen = distinct if len(distinct) <= N_TARGETS else np.linspace(distinct[0], distinct[-1], N_TARGETS)
    return tuple(chosen.tolist())
