"""regard generate: text from a language model, or from a label."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import AT_A_TIME
from regard.commands.text import Device, RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.write import Written


def generate(
    run: RunFolder,
    prompts: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", help="default: one a line")] = None,
    label: Annotated[
        str | None, typer.Option(help="write a text of this label; prompts are then optional, and how it begins")
    ] = None,
    length: Annotated[int, typer.Option(min=1, help="the most tokens to write")] = 100,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as temperature=0.8, n_best=3"),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="prompts, one a line (default: standard input)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a prompt")] = False,
    device: Device = None,
) -> None:
    """Write on from each prompt: N prompts in, N texts out.

    Prompts that come as lines give lines: the best text of each, its line ends escaped.  Prompts given as arguments
    give the texts as they are, all n_best of them.
    """
    from regard.commands.lines import read_lines
    from regard.commands.text import decoding_settings
    from regard.run import load

    if prompts and file is not None:
        raise RegardError(f"give prompts or --file {file}, not both")
    loaded = load(run, device)
    config = decoding_settings(loaded, set_ or [])
    if label is None and loaded.recipe.kind == "label-to-text":
        raise RegardError(f"{run} writes from a label: add --label with one of {', '.join(loaded.recipe.task.labels)}")
    if label is not None and not prompts and file is None:
        prompts = [""]
    lines = iter(prompts) if prompts else read_lines(file)
    at_a_time = 1 if not prompts and file is None and sys.stdin.isatty() else AT_A_TIME
    number = 0
    while chunk := list(islice(lines, at_a_time)):
        if label is None:
            found = loaded.generate(chunk, length, config)
        else:
            found = loaded.generate_as(label, chunk, length, config)
        for prompt, texts in zip(chunk, found, strict=True):
            number += 1
            for note in texts[0].notes:
                print(f"prompt {number}: {note}", file=sys.stderr)
            print_texts(prompt, texts, as_json, as_line=not prompts)
        sys.stdout.flush()


def print_texts(prompt: str, texts: list["Written"], as_json: bool, as_line: bool) -> None:
    from regard.commands.lines import write_line

    if as_json:
        written = [{"text": t.text, "log_prob": t.log_prob, "finished": t.finished} for t in texts]
        write_line(json.dumps({"prompt": prompt, "texts": written, "notes": texts[0].notes}, ensure_ascii=False))
    elif as_line:
        write_line(texts[0].whole)
    else:
        print("\n---\n".join(t.whole for t in texts))
