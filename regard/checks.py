"""Checks of settings by name: each rule and its message, once; and of a class that only the caller knows."""

import math
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from regard.errors import ConfigError

T = TypeVar("T")


def expect(value: object, kind: type[T]) -> T:
    """The value, for a caller that knows its class where the type does not tell, as of a recipe's `model`."""
    assert isinstance(value, kind), f"expected {kind.__name__}, got {type(value).__name__}"
    return value


def at_least(config: object, least: float, *names: str) -> None:
    _check(config, names, lambda value: value >= least, f"be at least {least}")


def at_most(config: object, most: float, *names: str) -> None:
    _check(config, names, lambda value: value <= most, f"be at most {most:,}")


def above(config: object, limit: float, *names: str) -> None:
    _check(config, names, lambda value: value > limit, f"be above {limit}")


def positive(config: object, *names: str) -> None:
    above(config, 0, *names)


def not_negative(config: object, *names: str) -> None:
    _check(config, names, lambda value: value >= 0, "not be negative")


def share(config: object, *names: str) -> None:
    """A share or a probability that may be 0 but not 1, such as that of dropout."""
    _check(config, names, lambda value: 0 <= value < 1, "be at least 0 and below 1")


def share_or_none(config: object, *names: str) -> None:
    """The same, or -1 where nothing is set."""
    _check(config, names, lambda value: value == -1 or 0 <= value < 1, "be -1, or at least 0 and below 1")


def proper_share(config: object, *names: str) -> None:
    _check(config, names, lambda value: 0 < value < 1, "be above 0 and below 1")


def positive_share(config: object, *names: str) -> None:
    _check(config, names, lambda value: 0 < value <= 1, "be above 0 and at most 1")


def one_of(config: object, choices: Iterable[str], *names: str) -> None:
    listed = list(choices)
    rule = f"be one of {', '.join(listed)}" if len(listed) > 1 else f"be {listed[0]}"
    _check(config, names, lambda value: value in listed, rule)


def distinct(config: object, *names: str) -> None:
    _check(config, names, lambda values: len(set(values)) == len(values), "not list anything twice")


def sorted_classes(config: object, *names: str) -> None:
    """The names of classes, whose places are their ids.  None yet: they come from the data."""
    _check(
        config,
        names,
        lambda values: not values or (len(values) > 1 and list(values) == sorted(set(values))),
        "be at least two, sorted, each once",
    )


def _check(config: object, names: Iterable[str], holds: Callable[[Any], bool], rule: str) -> None:  # any setting
    """A rule is a comparison that holds: of NaN none does.  No setting is infinite."""
    for name in names:
        value = getattr(config, name)
        if not holds(value) or value in (math.inf, -math.inf):
            shown = list(value) if isinstance(value, tuple) else value
            raise ConfigError(f"{name} must {rule}, got {reprlib.repr(shown)}")
