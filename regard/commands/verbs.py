"""A command for every verb: its fields become options, its input lines, its answers lines or JSON."""

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

import regard
from regard.commands.lines import answered, read_lines, say_notes, write_line
from regard.commands.options import AsJson, Decoding, Device, InputFile, RunFolder, decoding_settings
from regard.errors import ConfigError
from regard.tasks.request import AnyLineRequest, Help

VerbClass = type[AnyLineRequest]

Texts = Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="default: one per line")]
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
                    kind, default, flag = str, "", about.for_every_line
                option = typer.Option(flag, help=about.text, min=about.least)
                options.append((keyword(field.name, Annotated[kind, option], default), about))
    return options


def takes_decoding(verb: VerbClass) -> bool:
    return any(field.name == "decoding" for field in fields(verb))


def command_of(verb: VerbClass) -> Callable[..., None]:
    """A function that typer can make a command of."""
    options = options_of(verb)
    parameters = [
        keyword("run", RunFolder, inspect.Parameter.empty),
        *([keyword("texts", Texts), keyword("file", TextFile)] if verb.takes_texts else [keyword("file", InputFile)]),
        *([keyword("whole", Whole, False)] if verb.takes_whole else []),
        *([keyword("with_", Partners)] if verb.joins_runs else []),
        *([keyword("set_", Decoding)] if takes_decoding(verb) else []),
        *(parameter for parameter, _ in options),
        keyword("as_json", AsJson, False),
        keyword("device", Device),
    ]
    repeated = {parameter.name for parameter, about in options if about.for_every_line}

    def command(**arguments: Any) -> None:
        answer_lines(verb, repeated, **arguments)

    command.__name__, command.__doc__ = verb.name, verb.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
    return command


def answer_lines(
    verb: VerbClass,
    repeated: set[str],  # options of which every line gets the value
    run: Path,
    file: Path | None,
    as_json: bool,
    device: str | None,
    texts: list[str] | None = None,
    whole: bool = False,
    with_: list[Path] | None = None,
    set_: list[str] | None = None,
    **settings: object,
) -> None:
    """N lines in, N lines out."""
    if texts and file is not None:
        raise ConfigError(f"give texts or --file {file}, not both")
    loaded = regard.load(run, device)
    loaded.check_can(verb.name)
    if with_:
        loaded = loaded.join([regard.load(partner, device) for partner in with_])
    fixed = {name: value for name, value in settings.items() if name not in repeated}
    if takes_decoding(verb):
        decoding = fixed["decoding"] = decoding_settings(loaded, set_ or [])
        if decoding.n_best > 1 and verb.gives_n_best and not as_json:
            note = f"n_best = {decoding.n_best}: the best of each line is shown; --json shows the others too"
            print(note, file=sys.stderr)

    def request(lines: list[str]) -> AnyLineRequest:
        return verb(lines, **fixed, **{name: [settings[name]] * len(lines) for name in repeated})  # type: ignore[call-arg]

    form, ask = request([]), loaded.task.verbs[verb.name]
    given = ["\n".join(read_lines(file))] if whole and not texts else texts
    for number, line, answer in answered(file, lambda lines: ask(loaded.use(), request(lines)), given):
        if as_json:
            write_line(json.dumps(form.record(number, line, answer), ensure_ascii=False))
            continue
        write_line(form.line(answer))
        say_notes(number, [note for note in answer.notes if note not in verb.silent])
        for more in form.more(answer) if texts else ():
            write_line(more)
