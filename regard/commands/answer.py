"""regard answer: the span of a text that answers a question."""

import json
import os
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.text import Device, RunFolder
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.answering.use import Answered


def answer(
    run: RunFolder,
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="one question (default: lines of standard input)")
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|TEXT",
            help='what is asked about; without it each line of input is {"question": ..., "context": ...}',
        ),
    ] = None,
    always: Annotated[bool, typer.Option("--always", help="give the best answer even where none is likelier")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: answer, its probability and place, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Answer questions with words of a text: N lines in, N lines out, empty where the text does not tell."""
    from regard.commands.lines import answered, say_notes, write_line
    from regard.runs.run import load

    if question is not None and context is None:
        raise ConfigError("a question is about a text: give it, --context FILE or --context TEXT")
    about = None if context is None else text_of(context)
    loaded = load(run, device)
    numbers = count(1)

    def reply(lines: list[str]) -> list[tuple[str, "Answered"]]:
        """The question of each line, and its answer."""
        pairs = [read_pair(line, next(numbers)) if about is None else (line, about) for line in lines]
        questions = [asked for asked, _ in pairs]
        return list(zip(questions, loaded.answer(questions, [told for _, told in pairs], always), strict=True))

    replies = answered(None, reply) if question is None else [(1, question, reply([question])[0])]
    for number, _, (asked, best) in replies:
        if as_json:
            start, end = best.place or (None, None)
            record = {"line": number, "question": asked, "answer": best.text if best.place else None}
            record |= {"probability": best.probability, "start": start, "end": end, "notes": best.notes}
            write_line(json.dumps(record, ensure_ascii=False))
            continue
        write_line(best.text)
        say_notes(number, best.notes if best.place else [*best.notes, "the text does not tell"])


def text_of(context: str) -> str:
    """The text of a file of that name, if there is one, or what was given.  A single word is a file's name."""
    from regard.data.files.reading import read_lines

    is_file = os.path.isfile(context) or not any(character.isspace() for character in context.strip())
    return "\n".join(read_lines(context)) if is_file else context


def read_pair(line: str, number: int) -> tuple[str, str]:
    """Question and context of a line of JSON."""
    try:
        record = json.loads(line)
        return str(record["question"]), str(record["context"])
    except (json.JSONDecodeError, RecursionError, TypeError, KeyError):
        raise DataError(
            f'standard input:{number}: each line of input must be {{"question": ..., "context": ...}}, '
            f"got {line[:60]!r}; or give the text once, --context FILE, and a question a line"
        ) from None
