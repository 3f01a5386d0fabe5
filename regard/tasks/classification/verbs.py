"""What can be asked of a classifier: a label."""

from dataclasses import dataclass
from typing import Annotated

from regard.tasks.request import Help, LineRequest, Texts


@dataclass(frozen=True)
class Classified:
    label: str
    probabilities: dict[str, float]  # of every label
    notes: list[str]  # what happened to the text: "empty", "cut to the first 400 of 512 tokens"

    @property
    def probability(self) -> float:
        """Of the label given."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class Classify(LineRequest[Classified]):
    """Predict the label of each line: N lines in, N lines out."""

    name = "classify"

    lines: Texts
    probabilities: Annotated[bool, Help(text="after the label, the probability of every label")] = False

    def line(self, answer: Classified) -> str:
        shares = [f"{label}={share:.4f}" for label, share in answer.probabilities.items()] if self.probabilities else []
        return "\t".join([answer.label, *shares])

    def record(self, number: int, text: str, answer: Classified) -> dict[str, object]:
        record: dict[str, object] = {"line": number, "text": text, "label": answer.label}
        return record | {"probabilities": answer.probabilities, "notes": answer.notes}
