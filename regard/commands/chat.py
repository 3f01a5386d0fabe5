"""regard chat: a conversation with a trained run."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import AsJson, Decoding, Device, InputFile, RunFolder

if TYPE_CHECKING:
    from regard.decoding.config import DecodingConfig
    from regard.runs.run import Run


def chat(
    run: RunFolder,
    file: InputFile = None,
    system: Annotated[str, typer.Option(help="what the assistant is told before the conversation")] = "",
    length: Annotated[
        int | None, typer.Option(min=1, help="most tokens of an answer (default: half the window)")
    ] = None,
    set_: Decoding = None,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Chat: each line of input is your next message, and each reply is one line."""
    from regard.commands.lines import is_typed, read_lines, say_notes, write_line
    from regard.commands.options import decoding_settings
    from regard.runs.run import load

    loaded = load(run, device)
    loaded.check_can("chat")
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


def speak(run: "Run", messages: list[dict[str, str]], length: int | None, config: "DecodingConfig") -> str:
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
