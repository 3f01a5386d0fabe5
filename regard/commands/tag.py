"""regard tag: a tag for every word, or the text that the tags make."""

import json
from typing import Annotated

import typer

from regard.commands.text import Device, InputFile, RunFolder


def tag(
    run: RunFolder,
    file: InputFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: words, tags, their probabilities, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Tag the words of each line, word/tag, or restore their case and punctuation: N lines in, N lines out."""
    from regard.commands.lines import answered, say_notes, write_line
    from regard.runs.run import load

    loaded = load(run, device)
    for number, line, answer in answered(file, loaded.tag):
        if as_json:
            record = {
                "line": number,
                "source": line,
                "text": answer.text,
                "words": answer.words,
                "tags": answer.tags,
                "probabilities": [round(probability, 4) for probability in answer.probabilities],
                "notes": answer.notes,
            }
            write_line(json.dumps(record, ensure_ascii=False))
            continue
        write_line(answer.text)
        say_notes(number, [note for note in answer.notes if note != "empty"])
