"""Windows of episodes, as rows that a model reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.data.episodes.episodes import Episode, EpisodeSet
from regard.data.notes import Notes
from regard.errors import DataError
from regard.models.decisions import StepForm
from regard.nn.layout import Ragged

Symbols = Sequence[dict[str, int]]  # of each column of a state: the number of every symbol; 0 is for those unknown


N_LEVELS = 10  # of returns, from lowest to highest


@dataclass(frozen=True)
class DecisionBatch(Batch):
    inputs: Tensor  # N d_row: the rows of whole steps
    layout: Ragged
    actions: Tensor  # S: their numbers; or S d_action
    returns: Tensor  # S: what was still to come, in units of the scale

    @property
    def n_targets(self) -> int:
        return len(self.actions)

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


class StepSequence(NamedTuple):
    """Steps that follow one another, as the model reads them."""

    times: np.ndarray  # S, from 0
    to_go: np.ndarray  # S: the return that is still to come
    states: np.ndarray  # S d_state
    actions: np.ndarray  # S d_action

    def part(self, first: int, end: int) -> "StepSequence":
        return StepSequence(*(column[first:end] for column in self))


def as_steps(episode: Episode, symbols: Symbols) -> StepSequence:
    actions = episode.actions.reshape(len(episode), -1).astype(np.float32)
    to_go = returns_to_go(episode.rewards).astype(np.float32)
    return StepSequence(np.arange(len(episode)), to_go, as_numbers(episode.states, symbols), actions)


def as_numbers(states: np.ndarray, symbols: Symbols) -> np.ndarray:
    """States (T, columns) as what a model reads: their numbers, or those of their symbols."""
    if not symbols:
        return states.astype(np.float32)
    columns = [
        [numbers.get(symbol, 0) for symbol in column.tolist()]
        for numbers, column in zip(symbols, states.T, strict=True)
    ]
    return np.array(columns, np.float32).T


def returns_to_go(rewards: np.ndarray) -> np.ndarray:
    """R_t = r_t + r_(t+1) + … + r_T"""
    return rewards[::-1].cumsum()[::-1]


class EpisodePart:
    """Episodes cut into windows of at most `context` steps.

    An epoch of training draws where each window begins; elsewhere they follow one another, and have every step once.
    """

    def __init__(self, raw: EpisodeSet, form: StepForm, symbols: Symbols, context: int):
        self.raw, self.form, self.symbols, self.context = raw, form, symbols, context
        n_windows = -(-raw.lengths // context)
        self.episodes = np.repeat(np.arange(len(raw)), n_windows)
        self.first = np.concatenate([np.arange(n) * context for n in n_windows])  # steps
        self.lengths = np.minimum(raw.lengths[self.episodes], context) * form.n_rows
        self.notes = Notes()
        self.notes.update(raw.notes)
        self.check()

    def check(self) -> None:
        """Refuse what the model has no place for; count symbols that it does not know."""
        d_state, actions = self.raw.all[0].states.shape[1], self.raw.actions
        if d_state != self.form.d_state or self.raw.has_symbols != bool(self.form.n_symbols):
            kind = "symbols" if self.form.n_symbols else "numbers"
            raise DataError(f"{self.raw.places[0]}: the model reads states of {self.form.d_state} {kind}; these differ")
        if self.raw.is_discrete != bool(self.form.n_actions):
            kind = "whole numbers" if self.form.n_actions else "rows of numbers, such as [0.5]"
            raise DataError(f"{self.raw.places[0]}: the model's actions are {kind}; these differ")
        if not self.raw.is_discrete and actions.shape[1] != self.form.d_action:
            raise DataError(f"{self.raw.places[0]}: the model's actions are {self.form.d_action} numbers; these differ")
        if self.raw.is_discrete and actions.max() >= self.form.n_actions:
            worst = int(np.argmax([episode.actions.max() for episode in self.raw.all]))
            raise DataError(
                f"{self.raw.places[worst]} has the action {actions.max()}, and the model knows {self.form.n_actions}, "
                "counted from 0"
            )
        for episode, place in zip(self.raw.all, self.raw.places, strict=True) if self.symbols else ():
            for known, column in zip(self.symbols, episode.states.T, strict=True):
                n = sum(symbol not in known for symbol in column.tolist())
                if n:
                    self.notes.add("symbols that training does not have", place, n)

    def __len__(self) -> int:
        return len(self.lengths)

    def describe(self) -> str:
        returns = self.raw.returns
        return (
            f"{len(self.raw):,} episodes, {self.raw.lengths.sum():,} steps; "
            f"returns from {returns.min():g} to {returns.max():g}, on average {returns.mean():.4g}"
        )

    @cached_property
    def steps(self) -> list[StepSequence]:
        """Of each episode."""
        return [as_steps(episode, self.symbols) for episode in self.raw.all]

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The windows of each of ten levels of return that there are any of."""
        returns = self.raw.returns[self.episodes]
        edges = np.linspace(returns.min(), returns.max(), N_LEVELS + 1)[1:-1]
        levels = np.digitize(returns, edges)
        return [np.flatnonzero(levels == level) for level in np.unique(levels)]

    def drawn(self, chosen: np.ndarray, seed: int, epoch: int, even: bool) -> tuple[np.ndarray, np.ndarray]:
        """What an epoch of training has in place of each window: an episode, and the first step.

        Where all returns are equally frequent, the episode is another one, of a level that is drawn first.
        """
        draws = np.random.default_rng([seed, epoch, 17]).random((len(self), 3))[chosen]
        if even:
            of_level = [self.levels[int(draw * len(self.levels))] for draw in draws[:, 1]]
            chosen = np.array(
                [windows[int(draw * len(windows))] for windows, draw in zip(of_level, draws[:, 2], strict=True)]
            )
        episodes = self.episodes[chosen]
        room = np.maximum(self.raw.lengths[episodes] - self.context, 0)
        return episodes, (draws[:, 0] * (room + 1)).astype(np.int64)

    def batch(self, chosen: np.ndarray, seed: int, epoch: int | None, even: bool = False) -> DecisionBatch:
        chosen = np.asarray(chosen)
        episodes, starts = self.episodes[chosen], self.first[chosen]
        if epoch is not None:
            episodes, starts = self.drawn(chosen, seed, epoch, even)
        parts = [
            self.steps[i].part(first, first + self.context)
            for i, first in zip(episodes.tolist(), starts.tolist(), strict=True)
        ]
        columns = [torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True)]
        actions = columns[-1].squeeze(-1).long() if self.form.n_actions else columns[-1]
        layout = Ragged([len(part.times) * self.form.n_rows for part in parts])
        places = [self.raw.places[i] for i in episodes]
        returns = columns[1] / self.form.return_scale
        return DecisionBatch(places, self.form.rows(*columns), layout, actions, returns)


def best_of(raw: EpisodeSet, share: float) -> EpisodeSet:
    """This share of the episodes, those with the highest returns; of equal ones the first."""
    n = max(1, round(share * len(raw)))
    best = np.sort(np.argsort(-raw.returns, kind="stable")[:n])
    kept = raw.take(best)
    kept.notes.update(raw.notes)
    if n < len(raw):
        others = np.setdiff1d(np.arange(len(raw)), best)
        kept.notes.add(f"dropped: not among the best {share:.4g} by return", raw.places[others[0]], len(others))
    return kept
