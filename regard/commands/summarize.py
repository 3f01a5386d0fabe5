"""regard summarize: a short text for each long one."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.text import Device, RunFolder

if TYPE_CHECKING:
    from regard.tasks.translation.use import Translated


def summarize(
    run: RunFolder,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="one text a line (default: standard input)")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="all of the input is one text, line ends and all")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as beam=4, sample=true, top_p=0.9"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: text, scores, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Summarise lines: N texts in, N summaries out, each a line."""
    from regard.commands.lines import answered, read_lines, say_notes, write_line
    from regard.commands.text import decoding_settings
    from regard.runs.run import load

    loaded = load(run, device)
    config = decoding_settings(loaded, set_ or [])

    def answer(texts: list[str]) -> list["Translated"]:
        return loaded.summarize(texts, config)

    if whole:
        text = "\n".join(read_lines(file))
        found = iter([(1, text, answer([text])[0])])
    else:
        found = answered(file, answer)
    for number, text, best in found:
        if as_json:
            record = {"line": number, "text": text, "summary": best.text, "score": best.score}
            write_line(json.dumps({**record, "log_prob": best.log_prob, "notes": best.notes}, ensure_ascii=False))
        else:
            write_line(best.text)
            say_notes(number, [note for note in best.notes if note != "empty"])
        sys.stdout.flush()
