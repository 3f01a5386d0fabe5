"""regard fill: the words behind each [MASK]."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.text import Device, RunFolder

if TYPE_CHECKING:
    from regard.tasks.pretraining.use import Filled


def fill(
    run: RunFolder,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="default: one a line; [SEP] divides two texts")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="so many words for each [MASK]")] = 5,
    file: Annotated[Path | None, typer.Option(help="texts, one a line (default: standard input)")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a text: filled, words, probabilities, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Tell the words behind each [MASK]: N lines in, N lines out.

    Texts that come as lines give lines, filled with the likeliest words.  Texts given as arguments give also other
    likely words for each [MASK], with their probabilities.
    """
    from regard.commands.lines import answered, say_notes, write_line
    from regard.errors import ConfigError
    from regard.runs.run import load

    if texts and file is not None:
        raise ConfigError(f"give texts or --file {file}, not both")
    loaded = load(run, device)

    def answer(lines: list[str]) -> list["Filled"]:
        return loaded.fill(lines, top)

    found = zip(range(1, len(texts) + 1), texts, answer(texts), strict=True) if texts else answered(file, answer)
    for number, text, filled in found:
        if as_json:
            words = [[{"word": word, "probability": share} for word, share in each] for each in filled.words]
            record = {"line": number, "source": text, "text": filled.text, "words": words, "notes": filled.notes}
            write_line(json.dumps(record, ensure_ascii=False))
            continue
        write_line(filled.text)
        say_notes(number, filled.notes)
        for place, options in enumerate(filled.words if texts else [], start=1):
            write_line(f"  {place}: " + ", ".join(f"{word.strip()} {share:.3f}" for word, share in options))
