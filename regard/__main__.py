"""The command line.  A command is a function of `regard.commands`; PyTorch is imported only by those that run it."""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import regard
from regard.commands import tokenizer
from regard.commands.ask import embed, score, search
from regard.commands.demo import demo
from regard.commands.evaluate import bench, evaluate, point
from regard.commands.exchange import export, import_
from regard.commands.forecast import forecast
from regard.commands.generate import chat, generate
from regard.commands.ladder import ladder
from regard.commands.look import look, reach
from regard.commands.neighbors import neighbors
from regard.commands.new import new
from regard.commands.norms import norms
from regard.commands.play import play, record
from regard.commands.serve import serve
from regard.commands.shipped import data, recipes
from regard.commands.show import show
from regard.commands.train import doctor, train
from regard.commands.verbs import command_of
from regard.errors import RegardError
from regard.memory import ran_out
from regard.tasks.verbs import LINE_VERBS

*made, last_made = map(command_of, LINE_VERBS.values())

# The panels of `regard --help`, and the commands in each.  Some that ask verbs are written by hand: regard.tasks.verbs.
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Train": (demo, recipes, data, new, record, doctor, train, evaluate, ladder, bench),
    "Use": (*made, generate, chat, last_made, play, forecast, embed, search, score, serve),
    "Look": (look, show, neighbors, reach, norms, point),
    "Exchange": (import_, export),
}

app = typer.Typer(
    name="regard",
    help="The Transformer, whole: train it, use it, look into it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, functions in PANELS.items():
    for function in functions:
        app.command(function.__name__.rstrip("_"), rich_help_panel=panel)(function)
app.command("neighbours", hidden=True)(neighbors)  # its first name, for scripts that use it
app.add_typer(tokenizer.app, name="tokenizer", rich_help_panel="Train")


@dataclass
class Call:
    """What the options common to all commands say about one call of the program."""

    is_debugging: bool = False


def note_debugging(context: typer.Context, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:  # otherwise a shell asks for completions
        context.find_object(Call).is_debugging = True  # type: ignore[union-attr]  # `main` has put it there


@app.callback(invoke_without_command=True)
def begin(
    show_version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", callback=note_debugging, expose_value=False, help="show the traceback of an error"),
    ] = False,
) -> None:
    """The options before a command's name."""
    if show_version:
        print(f"regard {regard.__version__}")
        raise typer.Exit


def below(group: TyperGroup) -> Iterator[Any]:  # of click, which typer has as a part of its own
    """Every command of a group, and those of its groups."""
    for command in group.commands.values():
        yield command
        if isinstance(command, TyperGroup):
            yield from below(command)


def build() -> TyperGroup:
    """The program, with `--debug` also among the options of every command."""
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    (debug,) = (option for option in program.params if "--debug" in option.opts)
    for command in below(program):
        command.params.append(debug)
    return program


def check_streams() -> None:
    """Standard streams that the caller closed: without input there is nothing to read, without output nothing to do."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (open to the end)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raise RegardError("standard output is closed, so nothing can be printed; redirect it to a file or /dev/null")


def main() -> None:
    """Exit codes: 0, 1 error, 2 usage, 3 non-finite loss, 130 Ctrl-C, 143 SIGTERM."""
    call = Call()
    try:
        check_streams()
        build()(prog_name="regard", obj=call)
    except RegardError as error:
        if call.is_debugging:
            traceback.print_exc()
        print(f"{error.opening}{error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if call.is_debugging:
            raise
        print(f"error: {error.strerror or error}: {error.filename or 'a file'}; nothing was removed", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if call.is_debugging:
            raise
        if ran_out(error):
            print(f"error: there is not enough memory for this; nothing was removed ({error})", file=sys.stderr)
            sys.exit(1)
        log = Path("error.log")
        log.write_text(traceback.format_exc(), encoding="utf-8")
        print(
            f"error: {type(error).__name__}: {error}\n"
            "This is a bug in regard, not a mistake of yours; nothing was removed. "
            f"The traceback is in {log}; run the command again with --debug to see it.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
