"""What can be asked of a run that talks: its next message; and of one that judges: what an answer is worth."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from regard.data.files.records import as_text
from regard.decoding.config import DecodingConfig
from regard.errors import DataError
from regard.tasks.plain import plain
from regard.tasks.request import Help, LineRequest, Request, Texts


@dataclass(frozen=True)
class Reply:
    text: str
    log_prob: float  # with its end, where it has one
    finished: bool  # False: the length limit came first
    notes: tuple[str, ...] = ()  # what happened to the conversation


@dataclass(frozen=True)
class Chat(Request[Reply]):
    """The answer to the last of the messages, each such as {"role": "user", "content": "Hello!"}."""

    name, takes_draft = "chat", True

    messages: Sequence[dict[str, str]]
    length: int | None = None  # None: half of what the model holds
    decoding: DecodingConfig | None = None
    stop: Sequence[str] = ()  # the answer ends before the first of these

    def records(self, shown: Sequence[str], answers: Reply) -> list[object]:
        return [plain(answers)]


@dataclass(frozen=True)
class ChatStream(Chat):
    """The same answer in pieces, as it is written."""

    name, streams, takes_draft = "chat_stream", True, True


@dataclass(frozen=True)
class Judged:
    reward: float  # how good an answer is; only differences between answers to one prompt mean something
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Judge(LineRequest[Judged]):
    """Give answers a reward: N lines in, N lines out.

    Without --answer, each line of input is {"prompt": ..., "answer": ...}; with it, each is a prompt.
    """

    name = "judge"

    prompts: Texts
    answers: Annotated[Texts, Help(text="the answer to every prompt", for_every_line="--answer")]

    def read(self, line: str, where: str) -> dict[str, str]:
        if self.answers:  # one for every line
            return super().read(line, where)
        try:
            record = json.loads(line)
            prompt, answer = record["prompt"], record["answer"]
        except (ValueError, RecursionError, TypeError, KeyError):
            expected = '{"prompt": ..., "answer": ...}'
            raise DataError(f"{where}: each line of input must be {expected}, got {line[:60]!r}") from None
        return {"prompts": as_text(prompt, where, "prompt"), "answers": as_text(answer, where, "answer")}

    def line(self, answer: Judged) -> str:
        return f"{answer.reward:.4f}"

    def record(self, number: int, text: str, answer: Judged) -> dict[str, object]:
        return {"line": number, "prompt": text, "reward": answer.reward, "notes": answer.notes}
