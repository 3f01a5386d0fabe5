"""A classification head on top of BERT or a relative, in their settings and in ours."""

from typing import Any

from regard.errors import ConfigError
from regard.interop.families.settings import Theirs


def chooses_one_label(theirs: Theirs) -> bool:
    """Not a number, nor several labels at once: such a head is skipped."""
    return len(label_names(theirs)) > 1 and theirs.settings.get("problem_type") in (None, "single_label_classification")


def label_names(theirs: Theirs) -> tuple[str, ...]:
    """In the order of their numbers."""
    labels = theirs.settings.get("id2label")
    if labels is None:
        return tuple(f"LABEL_{i}" for i in range(theirs.width("num_labels", 2)))
    if not isinstance(labels, dict) or {str(key) for key in labels} != {str(i) for i in range(len(labels))}:
        raise ConfigError(f"id2label must name the labels 0, 1, ..; got {str(labels)[:80]}")
    return tuple(str(name) for _, name in sorted(labels.items(), key=lambda item: int(item[0])))


def read_labels(theirs: Theirs, activation: str) -> dict[str, Any]:
    """The settings of our task: labels are numbers here too, with their names beside them."""
    names = label_names(theirs)
    digits = len(str(len(names) - 1))  # "00", "01" .. so that their order is that of words
    return {
        "labels": tuple(f"{i:0{digits}d}" for i in range(len(names))),
        "names": names if len(set(names)) == len(names) else (),
        "framed": True,
        "pooling": "first",
        "pooler": activation,
        "dropout": theirs.number("classifier_dropout", 0.1),
    }


def write_labels(task: Any, family: str, activation: str) -> dict[str, Any]:
    """The settings of their classifier, which reads the first row through one layer."""
    for name, wanted in {"framed": True, "pooling": "first", "pooler": activation}.items():
        if (got := getattr(task, name)) != wanted:
            raise ConfigError(f"{family} needs task.{name} = {wanted!r} to classify, and this run has {got!r}")
    return {
        "id2label": {str(i): name for i, name in enumerate(task.shown_labels)},
        "label2id": {name: i for i, name in enumerate(task.shown_labels)},
        "problem_type": "single_label_classification",
        "classifier_dropout": task.dropout,
    }
