"""Questions about a text, and their answers as spans of its characters: SQuAD's and QuAC's files, or plain JSONL."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from regard.data.config import DataConfig
from regard.data.files.reading import kind_of, paths_of, read_lines
from regard.data.files.records import OBJECTS, as_text, json_lines, parse_json
from regard.data.files.splits import Divisible, Parts, read_parts
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

K = TypeVar("K")
CANNOT = "CANNOTANSWER"  # QuAC writes this for an answer, and at the end of every passage


class Answer(NamedTuple):
    """`text` stands at character `start` of the context; below 0 it stands nowhere there."""

    text: str
    start: int

    @property
    def is_found(self) -> bool:
        return self.start >= 0


NO_ANSWER = Answer("", -1)  # the context does not tell


@dataclass(frozen=True)
class Question:
    text: str
    context: str
    answers: tuple[Answer, ...]  # what people answered, at least one; the first is learned
    place: str  # "train.jsonl:12, question 3"
    earlier: tuple[str, ...] = ()  # the questions asked before it in the same dialogue, oldest first


@dataclass(frozen=True)
class AskedQuestions(Divisible):
    """A part of a data set; `notes` says what reading decided."""

    all: list[Question]
    notes: Notes

    def __len__(self) -> int:
        return len(self.all)

    @property
    def references(self) -> list[list[str]]:
        """What people answered to each; "" where they could not."""
        return [[answer.text for answer in question.answers] for question in self.all]

    @property
    def all_answerable(self) -> bool:
        return all(all(texts) for texts in self.references)

    def take(self, places: np.ndarray) -> "AskedQuestions":
        return AskedQuestions([self.all[i] for i in places], Notes())

    def keys(self) -> list[str]:
        """Questions about one context stay together."""
        return [question.context for question in self.all]


def read_questions(files: tuple[str, ...], root: Path | str) -> AskedQuestions:
    """Files of any of the FORMS, one after the other."""
    part = AskedQuestions([], Notes())
    for path in paths_of(files, root):
        for place, record in read_records(path, part.notes):
            part.all.extend(questions_of(record, place, part.notes))
    if not part.all:
        raise DataError(f"{', '.join(files)}: no questions found; check the file")
    return part


def question_parts(data: DataConfig) -> Parts[AskedQuestions]:
    if data.columns:
        raise ConfigError("questions are read by the names of their fields: leave data.columns empty")
    return read_parts(data, "questions", read_questions)


def read_records(path: Path, notes: Notes) -> Iterable[tuple[str, object]]:
    """What a file has in JSON, and the place of each."""
    if kind_of(path) not in (".json", *OBJECTS):
        raise ConfigError(f"{path.name}: questions are read from .json and .jsonl files (also .gz, .xz)")
    lines = read_lines(path, notes)
    if kind_of(path) == ".json":
        return [(path.name, parse_json("\n".join(lines), path.name))]
    return ((f"{path.name}:{i}", record) for i, record in json_lines(lines, path.name, notes))


def questions_of(record: object, place: str, notes: Notes) -> Iterator[Question]:
    """A record in any of the FORMS."""
    form = next((form for key, form in FORMS.items() if isinstance(record, dict) and key in record), None)
    if form is None:
        known = "; ".join(f"{key!r}: {read.__doc__}" for key, read in FORMS.items())
        raise DataError(f"{place} is none of the known forms, an object with {known}")
    yield from form(record, place, notes)


def articles(record: object, place: str, notes: Notes) -> Iterator[Question]:
    """SQuAD's, or QuAC's own: articles of paragraphs, and questions about each."""
    for a, article in enumerate(field(record, "data", list, place), start=1):
        for p, paragraph in enumerate(field(article, "paragraphs", list, place), start=1):
            where = f"{place}, article {a}, paragraph {p}"
            context = without_mark(field(paragraph, "context", str, where))
            earlier: list[str] = []
            for q, asked in enumerate(field(paragraph, "qas", list, where), start=1):
                here = f"{where}, question {q}"
                text, given = field(asked, "question", str, here), field(asked, "answers", list, here)
                yield Question(text, context, read_answers(given, context, here, notes), here, tuple(earlier))
                if "followup" in asked:  # of QuAC: the questions of a paragraph are one dialogue
                    earlier.append(text)


def dialogue(record: object, place: str, notes: Notes) -> Iterator[Question]:
    """a passage and its turns: [question, answer, start] or [question, [answers]]."""
    context = without_mark(field(record, "passage", str, place))
    earlier: list[str] = []
    for number, turn in enumerate(field(record, "turns", list, place), start=1):
        where = f"{place}, question {number}"
        if not isinstance(turn, list) or len(turn) not in (2, 3):
            raise DataError(f"{where} must be [question, answer, start] or [question, [answers]], got {shown(turn)}")
        text = as_text(turn[0], where, "question")
        given = turn[1] if len(turn) == 2 else [{"text": turn[1], "answer_start": turn[2]}]
        if not isinstance(given, list):
            raise DataError(f"{where}: an answer without its start is a list of texts, got {shown(given)}")
        yield Question(text, context, read_answers(given, context, where, notes), where, tuple(earlier))
        earlier.append(text)


def single(record: object, place: str, notes: Notes) -> Iterator[Question]:
    """question, context and answers: texts, or {"text", "answer_start"}; none where the context does not tell."""
    text, context = (field(record, name, str, place) for name in ("question", "context"))
    context = without_mark(context)
    yield Question(text, context, read_answers(field(record, "answers", list, place), context, place, notes), place)


# By the key that tells a form from the others.
FORMS: dict[str, Callable[[object, str, Notes], Iterator[Question]]] = {
    "data": articles,
    "turns": dialogue,
    "question": single,
}


def field(record: object, name: str, kind: type[K], place: str) -> K:
    """A field that must be there and be text or a list."""
    if not isinstance(record, dict) or name not in record:
        names = ", ".join(record)[:200] if isinstance(record, dict) else shown(record)
        raise DataError(f"{place} has no {name!r}; it has: {names}")
    value: object = as_text(record[name], place, name) if kind is str else record[name]
    if not isinstance(value, kind):
        raise DataError(f"{place}: {name!r} must be a {kind.__name__}, got {shown(value)}")
    return value


def read_answers(given: list[object], context: str, place: str, notes: Notes) -> tuple[Answer, ...]:
    return tuple(read_answer(item, context, place, notes) for item in given) or (NO_ANSWER,)


def read_answer(item: object, context: str, place: str, notes: Notes) -> Answer:
    """Where the file is wrong about the place, or does not say it, the text is looked for; that is noted."""
    has_start = isinstance(item, dict)
    text = (field(item, "text", str, place) if has_start else as_text(item, place, "answers")).strip()
    start = item.get("answer_start", 0) if isinstance(item, dict) else 0
    if not isinstance(start, int):
        raise DataError(f"{place}: 'answer_start' must be a number of characters, got {shown(start)}")
    if text in ("", CANNOT):
        return NO_ANSWER
    if has_start and context.startswith(text, max(start, 0)):
        return Answer(text, max(start, 0))
    after, before = context.find(text, max(start, 0)), context.rfind(text, 0, max(start, 0) + len(text))
    nearest = min((at for at in (after, before) if at >= 0), key=lambda at: abs(at - start), default=-1)
    if nearest < 0:
        notes.add("answer that does not stand in its context", place)
    elif has_start:
        notes.add("answer found at another place than the file says", place)
    elif context.find(text, nearest + 1) >= 0:
        notes.add("answer that stands in its context more than once: the first place is taken", place)
    return Answer(text, nearest)


def without_mark(context: str) -> str:
    """QuAC's passages end with what its answers call "cannot answer"; here that is not part of the text."""
    return context.removesuffix(CANNOT).rstrip() if context.endswith(CANNOT) else context


def shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)[:60]
