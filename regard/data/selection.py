"""Which examples are fit to learn from; what is left out is counted, with the reason and the first place."""

from collections.abc import Sequence

import numpy as np

from regard.data.notes import Notes
from regard.data.reading import Examples


def select(examples: Examples, lengths: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, Notes]:
    """The examples (their indices) without an empty or too long side; `lengths[c]` are tokens of column c."""
    keep = np.ones(len(examples), bool)
    notes = Notes()

    def drop(bad: np.ndarray, reason: str) -> None:
        bad = bad & keep
        if bad.any():
            notes.add(f"dropped: {reason}", examples.where(int(bad.argmax())), int(bad.sum()))
            keep[bad] = False

    blank = np.array([[not text.strip() for text in column] for column in examples.columns])
    drop(np.logical_and.reduce(blank), "empty line" if len(blank) == 1 else "empty on every side")
    for name, side in zip(examples.names, blank, strict=True):
        drop(side, f"{name} is empty")
    for name, tokens in zip(examples.names, lengths, strict=True):
        drop(np.asarray(tokens) == 0, f"{name} has no tokens")
        drop(np.asarray(tokens) > max_length, f"{name} is longer than {max_length} tokens")
    return np.flatnonzero(keep), notes
