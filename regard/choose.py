"""Pick an entry of a table by name, with an error that lists the names."""

from collections.abc import Mapping
from typing import TypeVar

from regard.errors import ConfigError

T = TypeVar("T")


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    if name not in table:
        raise ConfigError(f"unknown {what} {name!r}; choose one of: {', '.join(sorted(table))}")
    return table[name]
