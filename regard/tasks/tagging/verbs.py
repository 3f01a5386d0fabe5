"""What can be asked of a tagger: a tag for every word, and the text that the tags make."""

from dataclasses import dataclass, field

from regard.tasks.request import LineRequest, Texts


@dataclass(frozen=True)
class TaggedLine:
    """One line's answer: its words, their tags, and what these make of it; notes such as "empty", "split into 3"."""

    words: list[str]
    tags: list[str]  # or numbers, as they are written
    probabilities: list[float]  # of each tag; none of a number
    text: str
    notes: list[str] = field(default_factory=list)
    numbers: list[float] | None = None  # of a run that gives numbers, one for each word; None: it gives tags


@dataclass(frozen=True)
class Tag(LineRequest[TaggedLine]):
    """Tag the words of each line, word/tag, or restore their case and punctuation: N lines in, N lines out."""

    name, silent = "tag", ("empty",)

    lines: Texts

    def line(self, answer: TaggedLine) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: TaggedLine) -> dict[str, object]:
        record: dict[str, object] = {"line": number, "source": text, "text": answer.text, "words": answer.words}
        record |= {"tags": answer.tags, "probabilities": [round(share, 4) for share in answer.probabilities]}
        record |= {} if answer.numbers is None else {"numbers": answer.numbers}
        return record | {"notes": answer.notes}
