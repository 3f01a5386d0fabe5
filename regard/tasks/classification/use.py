"""A classifier at work: one label for each text, whatever the text holds."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, read_labelled, read_test
from regard.errors import ConfigError
from regard.tasks.classification.batches import log_probabilities
from regard.tasks.framing import Framing


@dataclass(frozen=True)
class Classified:
    label: str
    probabilities: dict[str, float]  # of every label
    notes: list[str]  # what happened to the text: "empty", "cut to the first 400 of 512 tokens"

    @property
    def probability(self) -> float:
        """Of the label given."""
        return self.probabilities[self.label]


def classify(
    model: Any, texts: list[str], names: tuple[str, ...], framing: Framing, batch_tokens: int
) -> list[Classified]:
    """One answer per text, in order; an empty one gets what the classifier says about nothing."""
    encoded = framing.encode(texts)
    documents = [framing.join(parts) for parts in encoded]
    answers = []
    for text, parts, row in zip(texts, encoded, log_probabilities(model, documents, batch_tokens), strict=True):
        notes = [] if text.strip() else ["empty"]
        if text.strip() and not all(part.strip() for part in framing.texts(text)):
            notes.append("one of the two texts is empty (a tab separates them)")
        if framing.length(parts) > framing.max_length:
            notes.append(f"cut to the {framing.keep} {framing.max_length:,} of {framing.length(parts):,} tokens")
        probabilities = np.exp(row.astype(np.float64))
        share = dict(zip(names, (probabilities / probabilities.sum()).tolist(), strict=True))
        answers.append(Classified(names[int(row.argmax())], share, notes))
    return answers


def test_set(data: DataConfig, labels: tuple[str, ...], files: tuple[str, ...]) -> tuple[str, Labelled]:
    """The given files (columns as in the recipe), the recipe's test files, or the share it held out; and their name.

    A label that training does not have is an error, before anything is classified.
    """
    test = read_labelled(files, data.columns, ".") if files else read_test(data)
    if test is None:
        raise ConfigError(
            "the recipe has no test data: give a labelled file (regard evaluate RUN FILE), "
            "or train with data.test or data.test_share"
        )
    test.ids(labels)
    held_out = f"{data.test_share:.0%} of the training file, held out by a hash of the text"
    return ", ".join(files or data.test) or held_out, test
