"""Texts classified: one label for each, even for an empty one."""

import numpy as np

from regard.tasks.classification.batches import Votes, log_probabilities
from regard.tasks.classification.verbs import Classified
from regard.tasks.framing import Framing


def classify(
    votes: Votes, texts: list[str], names: tuple[str, ...], framing: Framing, batch_tokens: int
) -> list[Classified]:
    """One answer per text, in order; an empty one gets what the classifier says about nothing."""
    encoded = framing.encode(texts)
    documents = [framing.join(parts) for parts in encoded]
    answers = []
    for text, parts, row in zip(texts, encoded, log_probabilities(votes, documents, batch_tokens), strict=True):
        notes = [] if text.strip() else ["empty"]
        if text.strip() and not all(part.strip() for part in framing.texts(text)):
            notes.append("one of the two texts is empty (a tab separates them)")
        if framing.length(parts) > framing.max_length:
            notes.append(f"cut to the {framing.keep} {framing.max_length:,} of {framing.length(parts):,} tokens")
        probabilities = np.exp(row.astype(np.float64))
        share = dict(zip(names, (probabilities / probabilities.sum()).tolist(), strict=True))
        answers.append(Classified(names[int(row.argmax())], share, notes))
    return answers
