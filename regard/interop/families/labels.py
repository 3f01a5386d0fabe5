"""A head that tells labels, on top of BERT or a relative: the task of classification in their settings and in ours."""

from typing import Any

from regard.errors import ConfigError
from regard.interop.families.family import Theirs


def tells_one_of_several(theirs: Theirs) -> bool:
    """Not a number, nor any of several labels at once: such a head is left out."""
    return len(label_names(theirs)) > 1 and theirs.settings.get("problem_type") in (None, "single_label_classification")


def label_names(theirs: Theirs) -> tuple[str, ...]:
    """In the order of their numbers."""
    found = theirs.settings.get("id2label")
    if found is None:
        return tuple(f"LABEL_{i}" for i in range(theirs.width("num_labels", 2)))
    if not isinstance(found, dict) or {str(key) for key in found} != {str(i) for i in range(len(found))}:
        raise ConfigError(f"id2label must name the labels 0, 1, ..; got {str(found)[:80]}")
    return tuple(str(name) for _, name in sorted(found.items(), key=lambda item: int(item[0])))


def read_labels(theirs: Theirs, activation: str) -> dict[str, Any]:
    """The settings of our task.  Labels are numbers here too, and what people call them are their names."""
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
            raise ConfigError(f"{family} needs task.{name} = {wanted!r} to tell labels, and this run has {got!r}")
    return {
        "id2label": {str(i): name for i, name in enumerate(task.shown_labels)},
        "label2id": {name: i for i, name in enumerate(task.shown_labels)},
        "problem_type": "single_label_classification",
        "classifier_dropout": task.dropout,
    }
