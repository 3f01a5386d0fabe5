"""Labels in other tools' settings: numbers with names beside them."""

from collections import Counter
from collections.abc import Sequence

from regard.errors import ConfigError
from regard.interop.families.settings import Theirs

MOST = 1 << 20  # labels


def label_names(theirs: Theirs) -> tuple[str, ...]:
    """In the order of their numbers."""
    labels = theirs.settings.get("id2label")
    if labels is None:
        return tuple(f"LABEL_{i}" for i in range(theirs.integer("num_labels", 2, MOST)))
    if not isinstance(labels, dict) or {str(key) for key in labels} != {str(i) for i in range(len(labels))}:
        raise ConfigError(f"id2label must name the labels 0, 1, ..; got {str(labels)[:80]}")
    return tuple(str(name) for _, name in sorted(labels.items(), key=lambda item: int(item[0])))


def numbers(n: int) -> tuple[str, ...]:
    """ "00", "01" ..: their order is that of words, too."""
    digits = len(str(n - 1))
    return tuple(f"{i:0{digits}d}" for i in range(n))


def told_apart(names: Sequence[str]) -> tuple[str, ...]:
    """A name that several labels have (ImageNet's two cranes) is followed by the label's number."""
    counts = Counter(names)
    apart = tuple(name if counts[name] == 1 else f"{name} ({i})" for i, name in enumerate(names))
    return apart if len(set(apart)) == len(apart) else numbers(len(names))


def name_settings(names: Sequence[str]) -> dict[str, object]:
    """Both ways, as transformers keeps them."""
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "problem_type": "single_label_classification",
    }
