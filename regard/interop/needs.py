"""Libraries that only the exchange needs: asked for when they are needed, with the way to get them."""

import importlib
from typing import Any

from regard.errors import RegardError


class MissingLibrary(RegardError):
    """What was to be done is left out, or cannot be done."""


def need(name: str) -> Any:
    """The module; an error where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(f"{name} is not installed, and this needs it: pip install 'regard[exchange]'") from None
