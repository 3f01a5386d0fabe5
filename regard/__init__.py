"""regard: the Transformer, whole.  Train it, use it, look into it.

run = regard.train("mine.toml")  # or a recipe as a dict of its tables
run = regard.load("runs/demo")
run.translate(["The animal didn't cross the street because it was too tired."])
with regard.watch(run.model) as seen: ...
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["TextClassifier", "__version__", "load", "train", "watch"]

if TYPE_CHECKING:
    from regard.nn.watch import watch
    from regard.runs.run import load
    from regard.training.call import train
    from regard.training.estimator import TextClassifier

HOMES = {
    "TextClassifier": "regard.training.estimator",
    "load": "regard.runs.run",
    "train": "regard.training.call",
    "watch": "regard.nn.watch",
}


def __getattr__(name: str) -> object:
    """The public names are fetched when they are first used: importing PyTorch takes seconds."""
    if name not in HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(HOMES[name]), name)
