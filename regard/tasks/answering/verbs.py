"""What can be asked of a run that answers questions: the span of a text."""

import json
from dataclasses import dataclass, field
from typing import Annotated

from regard.data.files.records import as_text
from regard.errors import ConfigError, DataError
from regard.tasks.request import Help, LineRequest, Texts


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
    """Answer questions with words of a text: N lines in, N lines out, empty where the text does not say.

    Without --context, each line of input is {"question": ..., "context": ...}.
    """

    name, takes_one = "answer", "question"

    questions: Texts
    contexts: Annotated[Texts, Help(text="the text that is asked about", for_every_line="--context", names_file=True)]
    always: Annotated[bool, Help(text="give the best answer even if no answer is likelier")] = False

    def read(self, line: str, where: str) -> dict[str, str]:
        if self.contexts:  # one for every line
            return super().read(line, where)
        if not where:
            raise ConfigError("a question needs a text: --context FILE or --context TEXT")
        try:
            record = json.loads(line)
            question, context = record["question"], record["context"]
        except (ValueError, RecursionError, TypeError, KeyError):
            raise DataError(
                f'{where}: each line of input must be {{"question": ..., "context": ...}}, '
                f"got {line[:60]!r}; or give the text once, --context FILE, and a question a line"
            ) from None
        return {"questions": as_text(question, where, "question"), "contexts": as_text(context, where, "context")}

    def line(self, answer: Answered) -> str:
        return answer.text

    def record(self, number: int, text: str, answer: Answered) -> dict[str, object]:
        start, end = answer.place or (None, None)
        record: dict[str, object] = {"line": number, "question": text, "answer": answer.text if answer.place else None}
        return record | {"probability": answer.probability, "start": start, "end": end, "notes": answer.notes}

    def remarks(self, answer: Answered) -> list[str]:
        return [] if answer.place else ["the text does not say"]
