"""regard tag: a tag for every word, or the text that the tags make."""

import json
import sys
from itertools import islice
from typing import Annotated

import typer

from regard.commands.text import AT_A_TIME, Device, InputFile, RunFolder


def tag(
    run: RunFolder,
    file: InputFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: words, tags, their probabilities, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Tag the words of each line, word/tag, or restore their case and punctuation: N lines in, N lines out."""
    from regard.commands.lines import read_lines, write_line
    from regard.run import load

    loaded = load(run, device)
    lines = read_lines(file)
    at_a_time = 1 if file is None and sys.stdin.isatty() else AT_A_TIME
    seen = 0
    while chunk := list(islice(lines, at_a_time)):
        for line, answer in zip(chunk, loaded.tag(chunk), strict=True):
            seen += 1
            if as_json:
                record = {
                    "line": seen,
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
            if answer.notes and answer.notes != ["empty"]:
                print(f"line {seen}: {', '.join(answer.notes)}", file=sys.stderr)
        sys.stdout.flush()
