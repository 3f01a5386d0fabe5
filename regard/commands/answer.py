"""regard answer: the span of a text that answers a question."""

import json
import os
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import AsJson, Device, RunFolder
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.tasks.answering.verbs import Answered


def answer(
    run: RunFolder,
    question: Annotated[str | None, typer.Argument(help="default: lines of standard input")] = None,
    context: Annotated[str | None, typer.Option(metavar="FILE|TEXT", help="the text that is asked about")] = None,
    always: Annotated[
        bool, typer.Option("--always", help="give the best answer even if no answer is likelier")
    ] = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Answer questions with words of a text: N lines in, N lines out, empty where the text does not say.

    Without --context, each line of input is {"question": ..., "context": ...}.
    """
    from regard.commands.lines import answered, say_notes, write_line
    from regard.runs.run import load
    from regard.tasks.answering.verbs import AnswerQuestions

    if question is not None and context is None:
        raise ConfigError("a question needs a text: --context FILE or --context TEXT")
    about = None if context is None else text_of(context)
    loaded = load(run, device)
    loaded.check_can(AnswerQuestions.name)
    numbers = count(1)

    def reply(lines: list[str]) -> list[tuple[str, "Answered"]]:
        """The question of each line, and its answer."""
        pairs = [read_pair(line, next(numbers)) if about is None else (line, about) for line in lines]
        questions, contexts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return list(zip(questions, loaded.answer(questions, contexts, always), strict=True))

    form = AnswerQuestions([], [])
    replies = answered(None, reply) if question is None else [(1, question, reply([question])[0])]
    for number, _, (text, best) in replies:
        if as_json:
            write_line(json.dumps(form.record(number, text, best), ensure_ascii=False))
            continue
        write_line(form.line(best))
        say_notes(number, best.notes if best.place else [*best.notes, "the text does not say"])


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
