"""A model that decides, watched while it reads an episode: which earlier steps each decision looks at."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from regard.data.episodes.episodes import Episode, EpisodeSet
from regard.data.episodes.files import read_episodes
from regard.errors import DataError
from regard.models.decisions import Decider
from regard.nn.layout import Ragged
from regard.nn.watch import watch
from regard.tasks.decisions.batches import StepSequence
from regard.tasks.decisions.verbs import Played
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, capture
from regard.viewer.map_set import Map


@torch.no_grad()
def look_at_steps(
    model: Decider, steps: StepSequence, states: Sequence[str], actions: Sequence[str], title: str, focus: Focus
) -> Capture:
    """Every layer and head, by rows and by whole steps; `states` and `actions` are what people call them."""
    focus.check(model)
    form, n = model.form, len(states)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        rows = form.rows(*(torch.from_numpy(column) for column in steps))
        model(rows.to(model.device), Ragged([n * form.n_rows], model.device))
    numbers = [int(time) + 1 for time in steps.times]
    names = [
        f"{number} {name}"
        for number, to_go, state, action in zip(numbers, steps.to_go, states, actions, strict=True)
        for name in ([f"return {to_go:g}"] if form.has_return else []) + [state, action]
    ]
    looked = capture(title, seen, {"self": (names, names)})
    decided = [f"{number} {action}" for number, action in zip(numbers, actions, strict=True)]
    whole = [f"{number} {state}, {action}" for number, state, action in zip(numbers, states, actions, strict=True)]
    by_steps = [joined(map, form.state_row, form.n_rows, decided, whole) for map in looked.maps]
    return replace(looked, maps=[*by_steps, *looked.maps])


def one_episode(name: str) -> EpisodeSet:
    """The first of a file, or the one on a line of it: walks.jsonl:12"""
    path, colon, line = name.rpartition(":")
    if not (colon and line.isdecimal()) or Path(name).is_file():
        path, line = name, ""
    episodes = read_episodes([path], ".")
    numbers = [place.rpartition(":")[2] for place in episodes.places]
    if line and line not in numbers:
        raise DataError(f"{path} has no episode on line {line}; the first is on line {numbers[0]}")
    return episodes.take(np.array([numbers.index(line) if line else 0]))


def as_episodes(played: Played, place: str) -> EpisodeSet:
    """One that was played, as if it had been read."""
    return EpisodeSet([Episode(np.array(played.states), np.array(played.actions), np.array(played.rewards))], [place])


def joined(map: Map, state_row: int, n_rows: int, decided: list[str], whole: list[str]) -> Map:
    """What each decision gives to a step: the sum over its rows."""
    weights = map.weights[state_row::n_rows]
    by_step = weights.reshape(len(weights), -1, n_rows).sum(-1)
    return Map(kind="steps", layer=map.layer, head=map.head, queries=decided, keys=whole, weights=np.asarray(by_step))
