"""Conversations: what was said, by whom, and one answer to the last message or several to choose between."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.reading import kind_of, paths_of, read_examples, read_lines
from regard.data.files.records import OBJECTS, as_text, json_objects
from regard.data.files.splits import Divisible, Parts, read_parts
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError, RegardError

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")
EXAMPLE = '{"messages": [...]}'  # of a record


@dataclass(frozen=True)
class Message:
    role: str
    content: str


Conversation = tuple[Message, ...]
RoleNames = tuple[str, ...]


@dataclass(frozen=True)
class Dialogues(Divisible):
    """Prompt i is a conversation that ends with a user's message; `answers[i]` are what is said to it."""

    prompts: list[Conversation]
    answers: list[tuple[str, ...]]
    places: list[str]  # as "train.jsonl:12"
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.prompts)

    def take(self, places: np.ndarray) -> "Dialogues":
        prompts, answers = [self.prompts[i] for i in places], [self.answers[i] for i in places]
        return Dialogues(prompts, answers, [self.places[i] for i in places])

    def keys(self) -> list[str]:
        """Equal prompts stay together."""
        return [as_one_text(prompt) for prompt in self.prompts]


def as_one_text(conversation: Conversation) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in conversation)


def read_dialogues(files: Sequence[str], columns: RoleNames, root: Path | str, names: RoleNames) -> Dialogues:
    """`names` are those of the answers: ("answer",), or ("chosen", "rejected").

    With `columns` tables, whose columns are the prompt and then the answers; without them JSONL, one object a line:
    {"messages": [{"role": "user", "content": ...}, ...]}, whose last message is the answer unless the answers stand
    beside it under their names, or {"prompt": ..., "answer": ...}.
    """
    if columns:
        return from_table(tuple(files), columns, root, names)
    dialogues = Dialogues([], [], [])
    for path in paths_of(files, root):
        if kind_of(path) not in OBJECTS:
            hint = "for a table of prompts and answers, name its columns in data.columns"
            raise ConfigError(f"{path.name}: conversations are read from .jsonl files (also .gz, .xz); {hint}")
        for i, record in json_objects(read_lines(path, dialogues.notes), path.name, EXAMPLE, dialogues.notes):
            place = f"{path.name}:{i}"
            prompt, answers = from_record(record, names, place)
            dialogues.prompts.append(prompt)
            dialogues.answers.append(answers)
            dialogues.places.append(place)
    if not dialogues.prompts:
        raise DataError(f"{', '.join(files)}: no conversations found; check the file")
    return dialogues


def from_table(files: RoleNames, columns: RoleNames, root: Path | str, names: RoleNames) -> Dialogues:
    if len(columns) != 1 + len(names):
        wanted = ", ".join(("prompt", *names))
        raise ConfigError(f"data.columns must name {1 + len(names)} columns ({wanted}), got {list(columns)}")
    examples = read_examples(files, columns, root)
    prompts, *answers = examples.columns
    places = [examples.where(i) for i in range(len(examples))]
    asked: list[Conversation] = [(Message(USER, prompt),) for prompt in prompts]
    return Dialogues(asked, list(zip(*answers, strict=True)), places, examples.notes)


def from_record(record: dict[str, object], names: RoleNames, place: str) -> tuple[Conversation, tuple[str, ...]]:
    if "messages" not in record:
        missing = [name for name in ("prompt", *names) if name not in record]
        if missing:
            raise DataError(f"{place} has neither messages nor {missing[0]!r}; it has: {', '.join(record)[:200]}")
        prompt = (Message(USER, as_text(record["prompt"], place, "prompt")),)
        return prompt, tuple(as_text(record[name], place, name) for name in names)
    try:
        messages = read_messages(record["messages"])
        if all(name in record for name in names):
            answers = tuple(as_text(record[name], place, name) for name in names)
        elif len(names) == 1 and messages and messages[-1].role == ASSISTANT:
            messages, answers = messages[:-1], (messages[-1].content,)
        elif len(names) == 1:
            raise DataError("the last message must be from the assistant: it is what the model learns")
        else:
            raise DataError(f"besides messages, the record needs {' and '.join(map(repr, names))}")
        check_prompt(messages)
    except RegardError as error:
        raise DataError(f"{place}: {error}") from None
    return messages, answers


def read_messages(value: object) -> Conversation:
    """As JSON has them: a list of objects with a role and a content."""
    if not isinstance(value, list):
        raise DataError(f"messages must be a list, got {json.dumps(value, default=repr)[:40]}")
    messages = []
    for number, message in enumerate(value, start=1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise DataError(f'message {number} must be like {{"role": "user", "content": "..."}}')
        messages.append(Message(str(message["role"]), as_text(message["content"], f"message {number}", "content")))
    return tuple(messages)


def check_prompt(messages: Conversation) -> None:
    """Perhaps the system's message, then user and assistant in turn, the user first and last."""
    for number, message in enumerate(messages, start=1):
        if message.role not in ROLES:
            raise DataError(f"message {number} has the role {message.role!r}; roles are: {', '.join(ROLES)}")
    spoken = [message.role for message in messages]
    spoken = spoken[1:] if spoken[:1] == [SYSTEM] else spoken
    expected = [(USER, ASSISTANT)[i % 2] for i in range(len(spoken))]
    if not spoken or spoken != expected or spoken[-1] != USER:
        raise DataError(
            "in a conversation user and assistant take turns, perhaps after one system message, and the user speaks "
            f"before each answer; got: {', '.join(message.role for message in messages) or 'nothing'}"
        )


def dialogue_parts(data: DataConfig, names: tuple[str, ...]) -> Parts[Dialogues]:
    return read_parts(data, "conversations", lambda files, root: read_dialogues(files, data.columns, root, names))
