"""Which examples are fit to learn from; what is left out is counted, with the reason and the first place."""

from collections.abc import Sequence

import numpy as np

from regard.data.files.reading import Examples
from regard.data.notes import Notes


def select(examples: Examples, lengths: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, Notes]:
    """The indices of the examples fit to learn from, and what was dropped."""
    fit, reasons = fitness(examples, lengths, max_length)
    notes = Notes()
    for reason, n in reasons.counts.items():
        notes.add(f"dropped: {reason}", reasons.first[reason], n)
    return np.flatnonzero(fit), notes


def fitness(examples: Examples, lengths: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, Notes]:
    """Which examples have no empty or too long side, and why the others do; `lengths[c]` are tokens of column c."""
    fit = np.ones(len(examples), bool)
    reasons = Notes()

    def refuse(bad: np.ndarray, reason: str, column: int = 0) -> None:
        bad = bad & fit  # an example counts once, for the first reason
        if bad.any():
            reasons.add(reason, examples.where(int(bad.argmax()), column), int(bad.sum()))
            fit[bad] = False

    blank = np.array([[not text.strip() for text in column] for column in examples.columns])
    refuse(np.logical_and.reduce(blank), "empty line" if len(blank) == 1 else "empty on every side")
    for c, (name, side) in enumerate(zip(examples.names, blank, strict=True)):
        refuse(side, f"{name} is empty", c)
    for c, (name, tokens) in enumerate(zip(examples.names, lengths, strict=True)):
        refuse(np.asarray(tokens) == 0, f"{name} has no tokens", c)
        refuse(np.asarray(tokens) > max_length, f"{name} is longer than {max_length} tokens", c)
    return fit, reasons
