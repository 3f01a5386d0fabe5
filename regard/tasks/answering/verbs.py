"""What can be asked of a run that answers questions: the span of a text."""

from dataclasses import dataclass, field

from regard.tasks.request import LineRequest, Texts


@dataclass(frozen=True)
class Answered:
    """What answers a question; `text` is "" and `place` None where the context does not say."""

    text: str
    probability: float  # among all answers that the same window could give, none included
    place: tuple[int, int] | None  # characters of the context, from the first to after the last
    odds: float  # log P(best answer) - log P(no answer), whichever was given; -inf where the context is empty
    notes: list[str] = field(default_factory=list)  # "empty context", "read in 3 windows"


@dataclass(frozen=True)
class AnswerQuestions(LineRequest[Answered]):
    """For each question the span of its context that answers it, or that none does; with `always`, one does."""

    name = "answer"

    questions: Texts
    contexts: Texts
    always: bool = False

    def line(self, answer: Answered) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: Answered) -> dict[str, object]:
        start, end = answer.place or (None, None)
        record: dict[str, object] = {"line": number, "question": text, "answer": answer.text if answer.place else None}
        return record | {"probability": answer.probability, "start": start, "end": end, "notes": answer.notes}
