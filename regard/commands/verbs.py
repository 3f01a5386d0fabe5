"""A command for every verb: its fields become options, its input lines, its answers lines or JSON."""

import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

import regard
from regard.commands.lines import answered, read_lines, say_notes, write_line
from regard.commands.options import (
    AsJson,
    Decoding,
    Device,
    DraftFolder,
    InputPaths,
    RunFolder,
    decoding_settings,
    say_accepted,
    with_draft,
)
from regard.errors import ConfigError
from regard.tasks.request import AnyLineRequest, Help

if TYPE_CHECKING:
    from regard.runs.run import Run

VerbClass = type[AnyLineRequest]

TextArguments = Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="default: one per line")]
TextFile = Annotated[Path | None, typer.Option(help="texts, one per line (default: standard input)")]
Whole = Annotated[bool, typer.Option("--whole", help="all of the input is one text, line ends included")]
Partners = Annotated[list[Path] | None, typer.Option("--with", metavar="RUN", help="decode as an ensemble")]


def keyword(name: str, kind: object, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def options_of(verb: VerbClass) -> list[tuple[inspect.Parameter, Help]]:
    """What typer makes options of, and what the fields of the verb say about them."""
    hints, options = get_type_hints(verb, include_extras=True), []
    for field in fields(verb):
        for about in get_args(hints[field.name]):
            if isinstance(about, Help):
                kind, default, flag = get_args(hints[field.name])[0], field.default, "--" + field.name.replace("_", "-")
                if about.for_every_line:
                    kind, default, flag = str | None, None, about.for_every_line
                metavar = "FILE|TEXT" if about.names_file else None
                option = typer.Option(flag, metavar=metavar, help=about.text, min=about.least)
                options.append((keyword(field.name, Annotated[kind, option], default), about))
    return options


def inputs_of(verb: VerbClass) -> list[inspect.Parameter]:
    if verb.takes_one:
        argument = typer.Argument(metavar=verb.takes_one, help="default: lines of standard input")
        return [keyword("text", Annotated[str | None, argument])]
    return (
        [keyword("texts", TextArguments), keyword("file", TextFile)]
        if verb.takes_texts
        else [keyword("files", InputPaths)]
    )


def takes_decoding(verb: VerbClass) -> bool:
    return any(field.name == "decoding" for field in fields(verb))


def command_of(verb: VerbClass) -> Callable[..., None]:
    """A function that typer can make a command of."""
    options = options_of(verb)
    parameters = [
        keyword("run", RunFolder, inspect.Parameter.empty),
        *inputs_of(verb),
        *([keyword("whole", Whole, False)] if verb.takes_whole else []),
        *([keyword("with_", Partners)] if verb.joins_runs else []),
        *([keyword("draft", DraftFolder)] if verb.takes_draft else []),
        *([keyword("set_", Decoding)] if takes_decoding(verb) else []),
        *(parameter for parameter, _ in options),
        keyword("as_json", AsJson, False),
        keyword("device", Device),
    ]
    repeated = {parameter.name: about for parameter, about in options if about.for_every_line}

    def command(**arguments: Any) -> None:  # each as its parameter above says
        answer_lines(verb, repeated, **arguments)

    command.__name__, command.__doc__ = verb.name, verb.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
    return command


def answer_lines(
    verb: VerbClass,
    repeated: dict[str, Help],  # options of which every line gets the value
    run: Path,
    as_json: bool,
    device: str | None,
    file: Path | None = None,
    files: list[Path] | None = None,
    text: str | None = None,
    texts: list[str] | None = None,
    whole: bool = False,
    with_: list[Path] | None = None,
    draft: Path | None = None,
    set_: list[str] | None = None,
    **settings: object,
) -> None:
    """N lines in, N lines out."""
    if texts and file is not None:
        raise ConfigError(f"give texts or --file {file}, not both")
    for_every_line: dict[str, list[str]] = {}
    for name, about in repeated.items():
        value = settings.pop(name)
        for_every_line[name] = [] if value is None else [str(value)]
        if about.names_file:
            for_every_line[name] = [text_or_file(text, about.for_every_line) for text in for_every_line[name]]
    first = fields(verb)[0].name
    form = verb(**{first: []}, **settings, **for_every_line)
    texts = texts if text is None else [text]
    for argument in texts or ():
        form.read(argument, "")  # what cannot be asked is refused before the run is loaded
    loaded = regard.load(run, device)
    loaded.check_can(verb.name)
    if files:
        file, texts = lines_or_files(loaded, files)
    if with_:
        loaded = loaded.join([regard.load(partner, device) for partner in with_])
    loaded = with_draft(loaded, draft, verb.name, device)
    if takes_decoding(verb):
        decoding = decoding_settings(loaded, set_ or [])
        form = replace(form, decoding=decoding)  # type: ignore[call-arg]
        if decoding.n_best > 1 and verb.gives_n_best and not as_json:
            note = f"n_best = {decoding.n_best}: the best of each line is shown; --json shows the others too"
            print(note, file=sys.stderr)
    numbers, ask = count(1), loaded.task.verbs[verb.name]

    def reply(lines: list[str]) -> list[tuple[str, Any]]:  # an answer of the class that the verb's request names
        """What each line asks about, and the answer."""
        rows = [form.read(line, f"{file or 'standard input'}:{next(numbers)}") for line in lines]
        columns = {name: values * len(lines) for name, values in for_every_line.items()}
        columns |= {name: [row[name] for row in rows] for name in rows[0]}
        return list(zip(columns[first], ask(loaded.use(), replace(form, **columns)), strict=True))

    if whole:
        texts = ["\n".join(read_lines(file))]
    for number, _, (asked, answer) in answered(file, reply, texts):
        if as_json:
            write_line(json.dumps(form.record(number, asked, answer), ensure_ascii=False))
            continue
        write_line(form.line(answer))
        say_notes(number, [note for note in answer.notes if note not in verb.silent] + form.remarks(answer))
        for more in form.more(answer) if texts else ():
            write_line(more)
    say_accepted(loaded)


def lines_or_files(run: "Run", files: list[Path]) -> tuple[Path | None, list[str] | None]:
    """The file of lines that was given; or, of a run that is asked about files, their names."""
    if run.task.takes_files and files:
        return None, [str(file) for file in files]
    if len(files) > 1:
        raise ConfigError(f"{run.folder} reads lines of text: give one file of them, not {len(files)}")
    return (files[0] if files else None), None


def text_or_file(value: str, option: str) -> str:
    """A text, or that of the file that it names."""
    from regard.data.files.reading import read_lines

    if os.path.isfile(value):
        return "\n".join(read_lines(value))
    if len(value.split()) < 2:
        hint = f"{option} takes a single word for the name of a file: check it, or give a text of several words"
        raise ConfigError(f"no file {value[:60]!r}; {hint}")
    return value
