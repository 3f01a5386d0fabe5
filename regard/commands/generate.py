"""regard generate: text from a language model, or from a label."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.commands.text import Device, RunFolder
from regard.errors import RegardError


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
    """Write on from each prompt; N prompts in, N lines out (line ends inside are escaped, unless prompts are given)."""
    from regard.commands.lines import read_lines, write_line
    from regard.commands.text import decoding_settings
    from regard.run import load

    loaded = load(run, device)
    config = decoding_settings(loaded, set_ or [])
    if label is None and loaded.recipe.kind == "label-to-text":
        raise RegardError(f"{run} writes from a label: add --label with one of {', '.join(loaded.recipe.task.labels)}")
    if label is not None and not prompts and file is None:
        prompts = [""]
    given = list(prompts) if prompts else list(read_lines(file))
    if label is None:
        found = loaded.generate(given, length, config)
    else:
        found = loaded.generate_as(label, given, length, config)
    for prompt, texts in zip(given, found, strict=True):
        if as_json:
            written = [{"text": t.text, "log_prob": t.log_prob, "finished": t.finished} for t in texts]
            write_line(json.dumps({"prompt": prompt, "texts": written}, ensure_ascii=False))
        elif prompts:
            print("\n---\n".join(t.whole for t in texts))
        else:
            write_line(" ".join(t.text for t in texts[:1]))
