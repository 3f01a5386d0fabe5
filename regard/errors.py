"""Mistakes that a user can fix.  Their messages say what, where, what is safe, and what to do next."""

import importlib
from typing import Any


class RegardError(ValueError):
    """Shown to the user as it is, without a traceback."""

    exit_code = 1
    opening = "error: "  # of the line that the user sees


class ConfigError(RegardError):
    """A recipe or an override that cannot be used."""


class DataError(RegardError):
    """A file whose content cannot be used; the message names the file and the line."""


class RunError(RegardError):
    """A run folder that is missing, incomplete or does not fit what is asked of it."""


class MissingLibrary(RegardError):
    """A step that only import and export have: it is skipped, or cannot be done."""


def missing(name: str, extra: str) -> MissingLibrary:
    return MissingLibrary(
        f"{name} is not installed, and this needs it: pip install '.[{extra}]' in a checkout of regard"
    )


def need(name: str, extra: str = "exchange") -> Any:
    """The module, loaded when it is used.  MissingLibrary if it is not installed; `extra` installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise missing(name, extra) from None
