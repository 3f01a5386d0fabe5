"""Conversations: what was said, by whom, and one answer to the last message or several to choose between."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.reading import kind_of, read_examples, read_lines
from regard.data.files.splits import by_hash, with_shares
from regard.data.files.tables import as_text, parse_json
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError, RegardError

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Message:
    role: str
    content: str


Conversation = tuple[Message, ...]


@dataclass(frozen=True)
class Dialogues:
    """Prompt i is a conversation that ends with a user's message; `answers[i]` are what is said to it."""

    prompts: list[Conversation]
    answers: list[tuple[str, ...]]
    places: list[str]  # as "train.jsonl:12"
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.prompts)

    def take(self, places: np.ndarray) -> "Dialogues":
        return Dialogues(
            [self.prompts[i] for i in places], [self.answers[i] for i in places], [self.places[i] for i in places]
        )

    def hold_out(self, share: float, seed: int) -> tuple["Dialogues", "Dialogues"]:
        """What is left, and about `share` of the distinct prompts; equal prompts stay together."""
        left, held_out = by_hash([as_one_text(prompt) for prompt in self.prompts], share, seed)
        return replace(self.take(left), notes=self.notes), self.take(held_out)


def as_one_text(conversation: Conversation) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in conversation)


def read_dialogues(
    files: Sequence[str], columns: tuple[str, ...], root: Path | str, names: tuple[str, ...]
) -> Dialogues:
    """`names` are those of the answers: ("answer",), or ("chosen", "rejected").

    With `columns` tables, whose columns are the prompt and then the answers; without them JSONL, one object a line:
    {"messages": [{"role": "user", "content": ...}, ...]}, whose last message is the answer unless the answers stand
    beside it under their names, or {"prompt": ..., "answer": ...}.
    """
    if not files:
        raise ConfigError("no files are named; set data.train, data.valid or data.test")
    if columns:
        return from_table(tuple(files), columns, root, names)
    notes, found = Notes(), Dialogues([], [], [])
    for path in (Path(root) / name for name in files):
        for record, place in json_objects(path, notes):
            prompt, answers = from_record(record, names, place)
            found.prompts.append(prompt)
            found.answers.append(answers)
            found.places.append(place)
    if not found.prompts:
        raise DataError(f"{', '.join(files)}: there is no conversation in it; check the file")
    return replace(found, notes=notes)


def from_table(files: tuple[str, ...], columns: tuple[str, ...], root: Path | str, names: tuple[str, ...]) -> Dialogues:
    if len(columns) != 1 + len(names):
        wanted = ", ".join(("prompt", *names))
        raise ConfigError(f"data.columns must name {1 + len(names)} columns ({wanted}), got {list(columns)}")
    examples = read_examples(files, columns, root)
    prompts, *answers = examples.columns
    places = [examples.where(i) for i in range(len(examples))]
    said = [(Message(USER, prompt),) for prompt in prompts]
    return Dialogues(list(said), list(zip(*answers, strict=True)), places, examples.notes)


def json_objects(path: Path, notes: Notes) -> Iterator[tuple[dict[str, Any], str]]:
    if kind_of(path) != ".jsonl":
        raise ConfigError(
            f"{path.name}: conversations are read from .jsonl files (also .gz, .xz); of a table of prompts and "
            "answers name the columns: data.columns"
        )
    for number, line in enumerate(read_lines(path, notes), start=1):
        place = f"{path.name}:{number}"
        if not line.strip():
            notes.add("empty line skipped", place)
            continue
        record = parse_json(line, place)
        if not isinstance(record, dict):
            raise DataError(f'{place} must be a JSON object such as {{"messages": [...]}}, got {line[:40]!r}')
        yield record, place


def from_record(record: dict[str, Any], names: tuple[str, ...], place: str) -> tuple[Conversation, tuple[str, ...]]:
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
            raise DataError("the last message must be the assistant's: it is what is learnt")
        else:
            raise DataError(f"beside messages there must be {' and '.join(map(repr, names))}")
        check_prompt(messages)
    except RegardError as error:
        raise DataError(f"{place}: {error}") from None
    return messages, answers


def read_messages(value: Any) -> Conversation:
    """As JSON has them: a list of objects with a role and a content."""
    if not isinstance(value, list):
        raise DataError(f"messages must be a list, got {json.dumps(value)[:40]}")
    found = []
    for number, message in enumerate(value, start=1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise DataError(f'message {number} must be like {{"role": "user", "content": "..."}}')
        found.append(Message(str(message["role"]), as_text(message["content"], f"message {number}", "content")))
    return tuple(found)


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
            "a conversation is, perhaps after one message of the system, user and assistant in turn, and the user "
            f"speaks before an answer; got: {', '.join(message.role for message in messages) or 'nothing'}"
        )


@dataclass(frozen=True)
class DialogueParts:
    train: Dialogues
    valid: Dialogues | None
    test: Dialogues | None


def read_parts(data: DataConfig, names: tuple[str, ...]) -> DialogueParts:
    """What is learnt from, what validates it and, where the recipe has it, the test."""
    train, valid, test = (
        read_dialogues(files, data.columns, data.root, names) if files else None
        for files in (data.train, data.valid, data.test)
    )
    assert train is not None
    return DialogueParts(*with_shares(train, valid, test, data))
