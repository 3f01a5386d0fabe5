"""regard generate: text from a language model, or from a label; regard chat: a conversation with a trained run."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import answered, is_typed, read_lines, say_notes, write_line
from regard.commands.options import (
    AsJson,
    Decoding,
    Device,
    DraftFolder,
    InputFile,
    RunFolder,
    decoding_settings,
    say_accepted,
    with_draft,
)
from regard.decoding.config import DecodingConfig
from regard.decoding.stopping import TextPieces
from regard.errors import RegardError
from regard.tasks.language.verbs import Written

if TYPE_CHECKING:
    from regard.runs.run import Run
    from regard.text.tokenizer import Tokenizer


def generate(
    run: RunFolder,
    prompts: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", help="default: one per line")] = None,
    label: Annotated[str | None, typer.Option(help="write texts with this label; without a prompt, one")] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="most tokens to write (default: 100, or half the window)")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="number of texts to sample for each prompt")] = 0,
    stop: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="end before this text; repeatable")] = None,
    as_stream: Annotated[bool, typer.Option("--stream", help="show the text while it is written")] = False,
    logprobs: Annotated[int, typer.Option(min=0, help="with --json: log P of tokens and of N others")] = 0,
    draft: DraftFolder = None,
    set_: Decoding = None,
    file: Annotated[Path | None, typer.Option(help="prompts, one per line (default: standard input)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per prompt")] = False,
    device: Device = None,
) -> None:
    """Continue each prompt: N prompts in, N texts out.

    Prompts that come as lines give lines: the best text of each, its line ends escaped.  Prompts given as arguments
    give the texts as they are, all n_best of them.  In --stop, \\n is a line end.
    """
    if prompts and file is not None:
        raise RegardError(f"give prompts or --file {file}, not both")
    if logprobs and not as_json:
        raise RegardError("--logprobs is shown by --json: add --json")
    if as_stream and (as_json or samples > 1 or not prompts):
        raise RegardError("--stream shows the text of prompts given as arguments: no --json, no --file, one sample")
    if label is not None and (stop or logprobs or as_stream):
        raise RegardError("--stop, --logprobs and --stream are for language models, not for texts from a label")
    loaded = regard.load(run, device)
    drawn = [] if not samples else ["sample=true", "beam=1", f"n_best={samples}"]
    config = decoding_settings(loaded, [*drawn, *(set_ or [])])
    writes_labels = "generate_as" in loaded.verbs
    if label is None and writes_labels:
        raise RegardError(f"{run} {loaded.task.purpose}: add --label")
    if label is not None and not writes_labels:
        raise RegardError(f"--label: {run} {loaded.task.purpose} and does not write texts with a label")
    if label is None:
        loaded.check_can("generate")
    loaded = with_draft(loaded, draft, "generate" if label is None else "generate_as", device)
    piped: list[str] = []
    if label is not None and not prompts and file is None:
        piped = [] if is_typed(None) else list(read_lines(None))
        prompts = None if piped else [""]
    stops = [text.replace("\\n", "\n") for text in stop or []]
    if as_stream:
        print_streams(prompts or [], (loaded.stream(prompt, length, config, stops) for prompt in prompts or []))
        return say_accepted(loaded)

    def write(lines: list[str]) -> list[list[Written]]:
        if label is None:
            return loaded.generate(lines, length, config, stops, logprobs)
        return loaded.generate_as(label, lines, length, config)

    for number, prompt, texts in answered(file, write, prompts or piped):
        for note in texts[0].notes:
            print(f"prompt {number}: {note}", file=sys.stderr)
        if as_json:
            records = [as_record(text, loaded.tokenizer) for text in texts]
            write_line(json.dumps({"prompt": prompt, "texts": records, "notes": texts[0].notes}, ensure_ascii=False))
        elif prompts:
            print("\n---\n".join(text.whole for text in texts))
        else:
            write_line(texts[0].whole)
    say_accepted(loaded)


def print_streams(prompts: list[str], texts: Iterable[TextPieces]) -> None:
    from regard.text.unicode import well_formed

    for number, (prompt, pieces) in enumerate(zip(prompts, texts, strict=True), start=1):
        first = next(pieces, "")  # before anything is shown: settings that cannot be streamed are refused here
        for note in pieces.notes:
            print(f"prompt {number}: {note}", file=sys.stderr)
        sys.stdout.write(("\n---\n" if number > 1 else "") + well_formed(prompt) + first)
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")


def as_record(written: Written, tokenizer: "Tokenizer") -> dict[str, object]:
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


def chat(
    run: RunFolder,
    file: InputFile = None,
    system: Annotated[str, typer.Option(help="what the assistant is told before the conversation")] = "",
    length: Annotated[
        int | None, typer.Option(min=1, help="most tokens of an answer (default: half the window)")
    ] = None,
    draft: DraftFolder = None,
    set_: Decoding = None,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Chat: each line of input is your next message, and each reply is one line."""
    loaded = regard.load(run, device)
    loaded.check_can("chat")
    loaded = with_draft(loaded, draft, "chat", device)
    config = decoding_settings(loaded, set_ or [])
    is_person = is_typed(file) and not as_json
    messages = [{"role": "system", "content": system}] if system else []
    for number, line in enumerate(read_lines(file), start=1):
        messages.append({"role": "user", "content": line})
        if is_person:
            text = speak(loaded, messages, length, config)
        else:
            answer = loaded.chat(messages, length, config)
            text = answer.text
            if as_json:
                record = {"turn": number, "message": line, "answer": text, "log_prob": answer.log_prob}
                record |= {"finished": answer.finished, "notes": answer.notes}
                write_line(json.dumps(record, ensure_ascii=False))
            else:
                write_line(text)
                say_notes(number, [*answer.notes, *([] if answer.finished else ["hit the length limit"])])
            sys.stdout.flush()
        messages.append({"role": "assistant", "content": text})
    say_accepted(loaded)


def speak(run: "Run", messages: list[dict[str, str]], length: int | None, config: DecodingConfig) -> str:
    """Write an answer as it comes."""
    answer = run.chat_stream(messages, length, config)
    for note in answer.notes:
        print(note, file=sys.stderr)
    pieces = []
    for piece in answer:
        pieces.append(piece)
        print(piece, end="", flush=True)
    print()
    return "".join(pieces).strip()
