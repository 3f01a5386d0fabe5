"""Episodes from JSONL, one a line: {"states": [...], "actions": [...], "rewards": [...]}, as many of each.

A state is a number or a list of numbers, or a symbol (a string) or a list of symbols.  An action is a whole number from
0, or a number or a list of numbers with a point: 1 is the second of some actions, [1] or 1.0 a push of this strength.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from regard.data.config import DataConfig
from regard.data.episodes.episodes import Episode, EpisodeSet
from regard.data.files.reading import kind_of, paths_of, read_lines
from regard.data.files.recognizing import Recognized, of_records, reads
from regard.data.files.records import OBJECTS, as_text, json_objects
from regard.data.files.splits import Parts, read_parts
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

EXAMPLE = '{"states": [[0.5, 1.0]], "actions": [1], "rewards": [0.0]}'
KEYS = ("states", "actions", "rewards")
MOST_ACTIONS = 100_000
LONGEST_SYMBOL = 200  # characters
LARGEST = 1e30  # of a number, so that sums and squares stay numbers


def episode_parts(data: DataConfig) -> Parts[EpisodeSet]:
    return read_parts(data, "episodes", read_episodes)


def read_episodes(files: Sequence[str], root: Path | str) -> EpisodeSet:
    episodes: list[Episode] = []
    places: list[str] = []
    notes = Notes()
    for path in paths_of(files, root):
        if kind_of(path) not in OBJECTS:
            raise ConfigError(f"{path.name}: episodes are read from .jsonl files (also .gz, .xz), one a line")
        for i, record in json_objects(read_lines(path, notes), path, EXAMPLE, notes):
            episodes.append(from_record(record, f"{path}:{i}"))
            places.append(f"{path.name}:{i}")
            for key in record:
                if key not in KEYS:
                    notes.add(f"{key!r} is not used", places[-1])
            refuse_other_form(episodes[-1], episodes[0], f"{path}:{i}", places[0])
    if not episodes:
        raise DataError(f"{', '.join(files)}: no episodes found; check the file")
    return EpisodeSet(episodes, places, notes)


def from_record(record: dict[str, object], where: str) -> Episode:
    lists: dict[str, list[object]] = {}
    for key in KEYS:
        value = record.get(key)
        if not isinstance(value, list):
            given = "no" if key not in record else f"{value!r:.40} as"
            raise DataError(f"{where} has {given} {key!r}; an episode is such as {EXAMPLE}")
        lists[key] = value
    if len({len(steps) for steps in lists.values()}) > 1:
        counts = ", ".join(f"{len(steps)} {key}" for key, steps in lists.items())
        raise DataError(
            f"{where} has {counts}; an episode has as many of each: leave out the state after the last action"
        )
    if not lists["states"]:
        raise DataError(f"{where} is an episode without a step; leave it out")
    rewards = as_rows(lists["rewards"], where, "reward", may_be_symbols=False)
    if rewards.shape[1] != 1:
        raise DataError(f"{where} has rewards of {rewards.shape[1]} numbers; a reward is one number")
    states = as_rows(lists["states"], where, "state", may_be_symbols=True)
    return Episode(states, as_actions(lists["actions"], where), rewards[:, 0])


def as_rows(values: list[object], where: str, what: str, may_be_symbols: bool) -> np.ndarray:
    """(T, columns) of numbers or of symbols."""
    rows = [value if isinstance(value, list) else [value] for value in values]
    for step, row in enumerate(rows, 1):
        if len(row) != len(rows[0]) or not row:
            raise DataError(f"{where}, step {step}: this {what} has {len(row)} parts, and the first has {len(rows[0])}")
    flat = list(chain.from_iterable(rows))
    if may_be_symbols and {*map(type, flat)} == {str}:
        for symbol in dict.fromkeys(flat):
            if len(as_text(symbol, where, what)) > LONGEST_SYMBOL or "\0" in symbol:
                step = next(step for step, row in enumerate(rows, 1) if symbol in row)
                limits = f"at most {LONGEST_SYMBOL} characters, and NUL is none of them"
                raise DataError(f"{where}, step {step}: a symbol has {limits}; got {symbol!r:.40}")
        return np.array(rows, np.str_)
    for step, row in enumerate(rows, 1):
        for value in row:
            if not (type(value) in (int, float) and abs(value) <= LARGEST):  # type: ignore[arg-type]  # of NaN nothing holds
                others = "; symbols and numbers do not mix" if may_be_symbols and isinstance(value, str) else ""
                raise DataError(f"{where}, step {step}: {value!r:.40} in the {what} is not a finite number{others}")
    return np.array(rows, np.float64)


def as_actions(values: list[object], where: str) -> np.ndarray:
    is_whole = [type(value) is int for value in values]
    if not any(is_whole):
        return as_rows(values, where, "action", may_be_symbols=False)
    for step, (value, whole) in enumerate(zip(values, is_whole, strict=True), 1):
        if not whole:
            raise DataError(f"{where}, step {step}: the action {value!r:.40} is no whole number, and others are")
        if not 0 <= value < MOST_ACTIONS:  # type: ignore[operator]
            raise DataError(
                f"{where}, step {step}: actions are counted from 0 to {MOST_ACTIONS - 1:,}, got {value!r:.40}"
            )
    return np.array(values, np.int64)


def refuse_other_form(episode: Episode, first: Episode, where: str, its_place: str) -> None:
    for what, own, other in (("states", episode.states, first.states), ("actions", episode.actions, first.actions)):
        if own.dtype.kind != other.dtype.kind or own.shape[1:] != other.shape[1:]:
            raise DataError(f"{where} has {what} of {described(own)}, and {its_place} of {described(other)}")


def described(rows: np.ndarray) -> str:
    if rows.ndim == 1:
        return "one whole number"
    return f"{rows.shape[1]} {'symbols' if rows.dtype.kind == 'U' else 'numbers'}"


def episodes_in(paths: Sequence[Path]) -> Recognized | None:
    """Whether files are episodes."""
    return of_records(
        paths, lambda beginning: reads(beginning, lambda record: from_record(record, "")), "has episodes of a game"
    )
