"""A command for every verb: its fields become options, its input lines, its answers lines or JSON."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from regard.commands.lines import answered, read_lines, say_notes, write_line
from regard.commands.options import AsJson, Decoding, Device, InputFile, RunFolder, decoding_settings
from regard.errors import ConfigError
from regard.tasks.request import Help, LineRequest

if TYPE_CHECKING:
    from regard.runs.run import Run

VerbClass = type[LineRequest[Any]]  # whatever it answers

Texts = Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="default: one per line")]
TextFile = Annotated[Path | None, typer.Option(help="texts, one per line (default: standard input)")]
Whole = Annotated[bool, typer.Option("--whole", help="all of the input is one text, line ends included")]
Partners = Annotated[list[Path] | None, typer.Option("--with", metavar="RUN", help="decode as an ensemble")]


class Field(NamedTuple):
    """A field of a verb that is an option of its command."""

    name: str
    kind: Any
    default: Any
    help: Help

    @property
    def parameter(self) -> inspect.Parameter:
        """What typer makes an option of."""
        kind, default, flag = self.kind, self.default, "--" + self.name.replace("_", "-")
        if self.help.for_every_line:
            kind, default, flag = str, "", self.help.for_every_line
        option = typer.Option(flag, help=self.help.text, min=self.help.least)
        return keyword(self.name, Annotated[kind, option], default)


def keyword(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def options_of(verb: VerbClass) -> list[Field]:
    hints, options = get_type_hints(verb, include_extras=True), []
    for field in fields(verb):
        if get_origin(hints[field.name]) is Annotated:
            kind, *extras = get_args(hints[field.name])
            options += [Field(field.name, kind, field.default, extra) for extra in extras if isinstance(extra, Help)]
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
        *(option.parameter for option in options),
        keyword("as_json", AsJson, False),
        keyword("device", Device),
    ]

    def command(**arguments: Any) -> None:
        answer_lines(verb, options, **arguments)

    command.__name__, command.__doc__ = verb.name, verb.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": None}
    return command


def answer_lines(
    verb: VerbClass,
    options: list[Field],
    run: Path,
    file: Path | None,
    as_json: bool,
    device: str | None,
    texts: list[str] | None = None,
    whole: bool = False,
    with_: list[Path] | None = None,
    set_: list[str] | None = None,
    **settings: Any,
) -> None:
    """N lines in, N lines out."""
    if texts and file is not None:
        raise ConfigError(f"give texts or --file {file}, not both")
    loaded = open_run(verb, run, with_, device)
    repeated = {option.name for option in options if option.help.for_every_line}
    fixed = {name: value for name, value in settings.items() if name not in repeated}
    if takes_decoding(verb):
        decoding = fixed["decoding"] = decoding_settings(loaded, set_ or [])
        if decoding.n_best > 1 and verb.gives_n_best and not as_json:
            note = f"n_best = {decoding.n_best}: the best of each line is shown; --json shows the others too"
            print(note, file=sys.stderr)

    def request(lines: list[str]) -> LineRequest[Any]:
        return verb(lines, **fixed, **{name: [settings[name]] * len(lines) for name in repeated})  # type: ignore[call-arg]

    form, ask = request([]), loaded.task.verbs[verb.name]
    for number, line, answer in numbered(file, texts, whole, lambda lines: ask(loaded.use(), request(lines))):
        if as_json:
            write_line(json.dumps(form.record(number, line, answer), ensure_ascii=False))
            continue
        write_line(form.line(answer))
        say_notes(number, [note for note in answer.notes if note not in verb.silent])
        for more in form.more(answer) if texts else ():
            write_line(more)


def open_run(verb: VerbClass, run: Path, partners: list[Path] | None, device: str | None) -> "Run":
    """The run, or an ensemble."""
    from regard.runs.run import load

    loaded = load(run, device)
    loaded.check_can(verb.name)
    return loaded.join([load(partner, device) for partner in partners]) if partners else loaded


def numbered(
    file: Path | None, texts: list[str] | None, whole: bool, answer: Callable[[list[str]], list[Any]]
) -> Iterator[tuple[int, str, Any]]:
    if texts or whole:
        texts = texts or ["\n".join(read_lines(file))]
        return iter(zip(range(1, len(texts) + 1), texts, answer(texts), strict=True))
    return answered(file, answer)
