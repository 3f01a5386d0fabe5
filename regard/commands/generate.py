"""regard generate: text from a language model, or from a label."""

import json
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.lines import AT_A_TIME
from regard.commands.options import Decoding, Device, RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.decoding.stopping import TextPieces
    from regard.tasks.language.verbs import Written
    from regard.text.tokenizer import Tokenizer


def generate(
    run: RunFolder,
    prompts: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", help="default: one per line")] = None,
    label: Annotated[str | None, typer.Option(help="write a text with this label; prompts are optional")] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="most tokens to write (default: 100, or half the window)")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="number of texts to sample for each prompt")] = 0,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="end before this text; repeatable")] = None,
    as_stream: Annotated[bool, typer.Option("--stream", help="show the text while it is written")] = False,
    logprobs: Annotated[int, typer.Option(min=0, help="with --json: log P of tokens and of N others")] = 0,
    set_: Decoding = None,
    file: Annotated[Path | None, typer.Option(help="prompts, one per line (default: standard input)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per prompt")] = False,
    device: Device = None,
) -> None:
    """Continue each prompt: N prompts in, N texts out.

    Prompts that come as lines give lines: the best text of each, its line ends escaped.  Prompts given as arguments
    give the texts as they are, all n_best of them.  In --stop, \\n is a line end.
    """
    from regard.commands.lines import is_typed, read_lines
    from regard.commands.options import decoding_settings
    from regard.runs.run import load

    if prompts and file is not None:
        raise RegardError(f"give prompts or --file {file}, not both")
    if logprobs and not as_json:
        raise RegardError("--logprobs is shown by --json: add --json")
    if as_stream and (as_json or samples > 1 or not prompts):
        raise RegardError("--stream shows the text of prompts given as arguments: no --json, no --file, one sample")
    if label is not None and (stop or logprobs or as_stream):
        raise RegardError("--stop, --logprobs and --stream are for language models, not for texts from a label")
    loaded = load(run, device)
    drawn = [] if not samples else ["sample=true", "beam=1", f"n_best={samples}"]
    config = decoding_settings(loaded, [*drawn, *(set_ or [])])
    writes_labels = "generate_as" in loaded.verbs
    if label is None and writes_labels:
        raise RegardError(f"{run} {loaded.task.purpose}: add --label")
    if label is not None and not writes_labels:
        raise RegardError(f"--label: {run} {loaded.task.purpose} and does not write texts with a label")
    if label is None:
        loaded.check_can("generate")
    if label is not None and not prompts and file is None:
        prompts = [""]
    stops = [text.replace("\\n", "\n") for text in stop or []]
    if as_stream:
        return print_streams(prompts or [], (loaded.stream(prompt, length, config, stops) for prompt in prompts or []))
    lines = iter(prompts) if prompts else read_lines(file)
    at_a_time = 1 if not prompts and is_typed(file) else AT_A_TIME
    number = 0
    while chunk := list(islice(lines, at_a_time)):
        if label is None:
            answers = loaded.generate(chunk, length, config, stops, logprobs)
        else:
            answers = loaded.generate_as(label, chunk, length, config)
        for prompt, texts in zip(chunk, answers, strict=True):
            number += 1
            for note in texts[0].notes:
                print(f"prompt {number}: {note}", file=sys.stderr)
            print_texts(prompt, texts, loaded.tokenizer, as_json, as_line=not prompts)
        sys.stdout.flush()


def print_streams(prompts: list[str], texts: Iterable["TextPieces"]) -> None:
    for number, (prompt, pieces) in enumerate(zip(prompts, texts, strict=True), start=1):
        first = next(pieces, "")  # before anything is shown: settings that cannot be streamed are refused here
        for note in pieces.notes:
            print(f"prompt {number}: {note}", file=sys.stderr)
        sys.stdout.write(("\n---\n" if number > 1 else "") + prompt + first)
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")


def print_texts(prompt: str, texts: list["Written"], tokenizer: "Tokenizer", as_json: bool, as_line: bool) -> None:
    from regard.commands.lines import write_line

    if as_json:
        written = [as_record(text, tokenizer) for text in texts]
        write_line(json.dumps({"prompt": prompt, "texts": written, "notes": texts[0].notes}, ensure_ascii=False))
    elif as_line:
        write_line(texts[0].whole)
    else:
        print("\n---\n".join(text.whole for text in texts))


def as_record(written: "Written", tokenizer: "Tokenizer") -> dict[str, object]:
    record: dict[str, object] = {"text": written.text, "log_prob": written.log_prob, "finished": written.finished}
    if written.places:
        record["tokens"] = [
            {
                "token": tokenizer.token(place.token),
                "log_prob": place.log_prob,
                "likeliest": [{"token": tokenizer.token(n), "log_prob": log_prob} for n, log_prob in place.best],
            }
            for place in written.places
        ]
    return record
