"""What files are, by their beginnings and names: parallel text, labeled tables, questions, tagged words and so on.

Each function gives the settings that read the files, or None.  It never raises because of what is in a file."""

import math
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.files import clues
from regard.data.files.clues import LANGUAGES, Beginning, Files, begin_parts, data_settings, is_label, is_text
from regard.data.files.conversations import from_record
from regard.data.files.questions import questions_of
from regard.data.files.records import TABLES
from regard.data.notes import Notes
from regard.errors import DataError

N_RECORDS = 50  # read as the task would read them
LEAST_CORRELATION = 0.2  # between the lengths of lines that belong together (Gale and Church 1993)
FEW_LINES = 10  # of which the lengths say nothing
MUCH_LONGER = 3  # times as long: one text sums up the other
WRAPPED = 100  # characters of the longest line of a text whose lines are wrapped
SQUAD_KEYS = ('"data"', '"paragraphs"', '"context"', '"qas"', '"question"', '"answers"')
LABELS = {"label", "labels", "class", "category", "sentiment", "intent", "topic"}
PROMPTS, REPLIES = {"prompt", "instruction"}, {"answer", "response", "output", "completion", "reply"}


class Recognized(NamedTuple):
    """Files that a task takes for its own: settings that read them, and how it was seen."""

    data: dict[str, object]
    task: dict[str, object]
    why: str
    certainty: float  # from 0 to 1


def nothing(paths: Sequence[Path]) -> Recognized | None:
    """What a task says that has no files of its own."""
    return None


# Pairs of texts.


def parallel_text(paths: Sequence[Path]) -> Recognized | None:
    """Files of which line i is the translation of line i of another."""
    parts = clues.by_part(paths)
    if not parts or any(len(pair) != 2 for pair in parts.values()):
        return None
    languages = clues.column_names(parts["train"])
    aligned: Files = {}
    for part, pair in parts.items():
        names = clues.column_names(pair)
        if sorted(names) != sorted(languages) or not are_parallel(pair):
            return None
        aligned[part] = sorted(pair, key=lambda path: languages.index(names[pair.index(path)]))
    source, target = (LANGUAGES.get(name, name) for name in languages)
    files = listed([path.name for path in aligned["train"]])
    why = f"{files} are text, and line i of one goes with line i of the other"
    certainty = 0.9 if all(name in LANGUAGES for name in languages) else 0.6
    return Recognized(data_settings(aligned), {"source": source, "target": target}, why, certainty)


def are_parallel(pair: Sequence[Path]) -> bool:
    """The same number of lines, as far as they were read, and short lines where the other has short ones."""
    first, second = map(clues.begin, pair)
    if first is None or second is None:
        return False
    if not all(is_plain_text(beginning) and not is_label(beginning.lines) for beginning in (first, second)):
        return False
    if first.n_lines is not None and second.n_lines is not None and first.n_lines != second.n_lines:
        return False
    n = min(len(first.lines), len(second.lines))
    lengths = np.array([[len(line) for line in lines[:n]] for lines in (first.lines, second.lines)], np.float64)
    if n < FEW_LINES or not lengths.std(1).all():
        return n > 0
    return bool(np.corrcoef(*lengths)[0, 1] > LEAST_CORRELATION)


def is_plain_text(beginning: Beginning) -> bool:
    return beginning.kind not in TABLES and beginning.kind != ".json" and clues.has_letters(beginning.lines)


def pairs(paths: Sequence[Path]) -> Recognized | None:
    return parallel_text(paths) or text_pairs(paths)


def text_pairs(paths: Sequence[Path]) -> Recognized | None:
    """Tables with two columns of text: a text and its translation, or its summary."""
    parts, columns = same_tables(paths)
    texts = [name for name, values in columns.items() if is_text(values)]
    if len(texts) != 2:
        return None
    widths = [sum(map(len, columns[name])) for name in texts]
    is_summary = max(widths) > MUCH_LONGER * min(widths)
    source, target = texts[::-1] if is_summary and widths[0] < widths[1] else texts
    task: dict[str, object] = {}
    if not source.isdecimal():
        task |= {"source": LANGUAGES.get(source, source), "target": LANGUAGES.get(target, target)}
    why = f"{parts['train'][0].name} is a table, and its columns {source} and {target} are text"
    if is_summary:
        task |= {"long": "cut"}
        why += f"; {target} is much shorter, as summaries are"
    return Recognized(data_settings(parts, (source, target)), task, why, 0.5)


# Tables.


def same_tables(paths: Sequence[Path]) -> tuple[Files, dict[str, list[str]]]:
    """Tables, and the columns of the first one for training that all of them have; none if they are something else."""
    parts, beginnings = begin_parts(paths)
    tables = {beginning.path: clues.columns_of(beginning) for beginning in beginnings}
    first = tables[parts["train"][0]] if parts else {}
    return parts, {name: values for name, values in first.items() if all(name in table for table in tables.values())}


def labeled_texts(paths: Sequence[Path]) -> Recognized | None:
    """Tables with a column of text, or two, and one of labels."""
    parts, columns = same_tables(paths)
    texts = [name for name, values in columns.items() if is_text(values)]
    labels = [name for name, values in columns.items() if is_label(values)]
    varied = [name for name in labels if len(set(columns[name])) > 1]
    if len(texts) not in (1, 2) or not (varied or (labels and len(columns) == 2)):
        return None
    candidates = varied or labels
    named = [name for name in candidates if name.lower() in LABELS]
    label = (named or candidates)[-1]
    seen = sorted(set(columns[label]))
    values = listed(seen) if len(seen) <= 5 else f"such as {seen[0]}"
    counted = f"{len(seen)} different values ({values})" if varied else f"one value at its beginning ({values})"
    text = f"column {texts[0]} is text" if len(texts) == 1 else f"columns {listed(texts)} are text"
    why = f"{parts['train'][0].name} is a table: its {text}, and its column {label} has {counted}"
    certainty = 0.9 if named else 0.8 if varied and len(texts) == 1 else 0.6
    return Recognized(data_settings(parts, (*texts, label)), {}, why, certainty)


# One file for each part.


def plain_text(paths: Sequence[Path]) -> Recognized | None:
    """A text, or one for each of training, validation and test."""
    parts, beginnings = begin_parts(paths)
    if not parts or any(len(files) > 1 for files in parts.values()) or not all(map(is_plain_text, beginnings)):
        return None
    lines = [line for beginning in beginnings for line in beginning.lines if line.strip()]
    # Sentences run over the ends of short lines: the next begins with a small letter.
    n_going_on = sum(line.lstrip()[:1].islower() for line in lines)
    is_wrapped = max(map(len, lines)) <= WRAPPED and n_going_on > len(lines) / 4
    why = f"{listed([beginning.path.name for beginning in beginnings])} {'is' if len(paths) == 1 else 'are'} plain text"
    if is_wrapped:
        why += ", and sentences run over the ends of its lines"
    return Recognized(data_settings(parts), {"unit": "text"} if is_wrapped else {}, why, 0.3)


def tagged_words(paths: Sequence[Path]) -> Recognized | None:
    """A word and its tag on each line, and an empty line after each sentence (the CoNLL tasks)."""
    parts, beginnings = begin_parts(paths)
    if not parts or not all(map(has_tags, beginnings)):
        return None
    tags = sorted({line.split()[-1] for beginning in beginnings for line in beginning.lines if line.strip()})
    why = f"{beginnings[0].path.name} has a word and a tag on each line ({listed(tags[:5])}) and empty lines between"
    return Recognized(data_settings(parts), {"neutral": "O"} if "O" in tags else {}, why + " sentences", 0.9)


def has_tags(beginning: Beginning) -> bool:
    words = word_rows(beginning)
    most_tags = min(clues.most_labels(len(words)), len({row[0] for row in words}) - 1)
    return 2 <= len({row[-1] for row in words}) <= most_tags


def numbered_words(paths: Sequence[Path]) -> Recognized | None:
    """A word and a number on each line, and an empty line after each sentence."""
    parts, beginnings = begin_parts(paths)
    tables = list(map(word_rows, beginnings))
    rows = list(chain.from_iterable(tables))
    numbers = [row[-1] for row in rows]
    if not parts or not all(tables) or not all(map(is_finite, numbers)):
        return None
    if len(set(numbers)) < 2 or all(is_finite(row[0]) for row in rows):
        return None
    why = f"{beginnings[0].path.name} has a word and a number on each line and empty lines between sentences"
    is_sure = any("." in number for number in numbers)  # whole numbers may be the names of tags
    return Recognized(data_settings(parts), {}, why, 0.95 if is_sure else 0.85)


def word_rows(beginning: Beginning) -> list[list[str]]:
    """The columns of each line that has any, where lines have the same number of columns, two or more, and empty lines
    stand between sentences; otherwise none."""
    lines = beginning.lines if beginning.n_lines is None else [*beginning.lines, ""]
    rows = [line.split() for line in lines]
    words, n_empty = [row for row in rows if row], sum(not row for row in rows)
    widths = {len(row) for row in words}
    is_table = beginning.kind in (".csv", ".jsonl", ".json")
    return [] if is_table or len(widths) != 1 or widths == {1} or not 2 <= n_empty < len(words) else words


def is_finite(number: str) -> bool:
    try:
        return math.isfinite(float(number))
    except ValueError:
        return False


def questions(paths: Sequence[Path]) -> Recognized | None:
    """Questions about a text, whose answers stand in it (SQuAD, QuAC, or one on each line)."""
    return of_records(paths, has_questions, "has questions about texts, and their answers")


def has_questions(beginning: Beginning) -> bool:
    if beginning.kind == ".json":
        return beginning.text.lstrip().startswith("{") and all(key in beginning.text for key in SQUAD_KEYS)
    return reads(beginning, lambda record: list(questions_of(record, "", Notes())))


def conversations(paths: Sequence[Path], answers: tuple[str, ...]) -> Recognized | None:
    """Messages or prompts, and what follows them under the names `answers` (one, or two to choose between)."""

    def has_conversations(beginning: Beginning) -> bool:
        return reads(beginning, lambda record: from_record(record, answers, ""))

    if len(answers) > 1:
        return of_records(paths, has_conversations, f"has {listed(answers)} answers")
    return of_records(paths, has_conversations, "has conversations that end with an answer") or prompts(paths)


def prompts(paths: Sequence[Path]) -> Recognized | None:
    """Tables with a prompt and its answer."""
    parts, columns = same_tables(paths)
    prompt, answer = (next((name for name in columns if name.lower() in known), None) for known in (PROMPTS, REPLIES))
    if prompt is None or answer is None:
        return None
    why = f"{parts['train'][0].name} is a table with the columns {prompt} and {answer}"
    return Recognized(data_settings(parts, (prompt, answer)), {}, why, 0.8)


def of_records(paths: Sequence[Path], fits: Callable[[Beginning], bool], has: str) -> Recognized | None:
    parts, beginnings = begin_parts(paths)
    if not parts or not all(map(fits, beginnings)):
        return None
    return Recognized(data_settings(parts), {}, f"{beginnings[0].path.name} {has}", 0.95)


def reads(beginning: Beginning, read: Callable[[dict[str, object]], object]) -> bool:
    """Whether a reader takes the first records of a JSONL file."""
    records = clues.json_records(beginning)[:N_RECORDS] if beginning.kind == ".jsonl" else []
    try:
        for record in records:
            read(record)
    except DataError:
        return False
    return bool(records)


def listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
