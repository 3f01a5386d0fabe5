"""Libraries that only import and export need, loaded when they are used; an error says how to install them."""

import importlib
from typing import Any

from regard.errors import RegardError


class MissingLibrary(RegardError):
    """A step is skipped, or cannot be done."""


def need(name: str) -> Any:
    """The module.  MissingLibrary if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(f"{name} is not installed, and this needs it: pip install 'regard[exchange]'") from None
