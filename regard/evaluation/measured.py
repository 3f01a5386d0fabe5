"""What an evaluation gives: figures, what they are of, and all that is shown or written besides."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from regard.evaluation.metric import Metric

Table = tuple[str, list[tuple[str, ...]]]  # a title, the headings, and the rows


class Measured(NamedTuple):
    """`record` is what --json says, beside the run; the screen shows `heading`, then the tables, then the footing."""

    of: str  # the test set, in words
    metrics: list[Metric]
    record: dict[str, object]
    tables: list[Table]
    heading: Sequence[str] = ()
    footing: Sequence[str] = ()
    outputs: Sequence[str] = ()  # one for each line of the test, where the task gives any
    remarks: Sequence[str] = ()  # on the test's files, to standard error
    draw: Callable[[Path], None] | None = None  # a picture
    is_compared: bool = False  # whether its outputs can be compared, line by line, with those of another run


class Versus(NamedTuple):
    """Two runs on one test."""

    record: dict[str, object]  # what --json says of both together
    records: Sequence[dict[str, object]]  # and of each by itself
    tables: list[Table]
    sides: Sequence[Measured] = ()  # the figures of each by itself, shown before
    footing: Sequence[str] = ()


def measured(of: str, metrics: list[Metric]) -> Measured:
    """Figures and nothing else."""
    record: dict[str, object] = {"of": of, "metrics": [asdict(metric) for metric in metrics]}
    rows = [("what", "value", "95 % interval"), *(metric_row(metric, "{:.4g}") for metric in metrics)]
    return Measured(of, metrics, record, [("", rows)], footing=[metrics[0].signature])


def metric_row(metric: Metric, form: str, interval_form: str | None = None) -> tuple[str, ...]:
    between = (interval_form or form) + " to " + (interval_form or form)
    return metric.name, form.format(metric.value), "" if metric.interval is None else between.format(*metric.interval)


def count_notes(notes: Iterable[str], ends: tuple[str, ...]) -> dict[str, int]:
    """How often each note occurs; what follows one of `ends` differs from line to line and does not count."""
    kinds = Counter[str]()
    for note in notes:
        for end in ends:
            note = note.split(end)[0]
        kinds[note] += 1
    return dict(kinds)
