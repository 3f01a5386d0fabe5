"""The command line.  A command is a function of `regard.commands`; PyTorch is imported only by those that run it."""

import os
import sys
import traceback
from pathlib import Path

import typer

import regard
from regard.commands import (
    answer,
    bench,
    chat,
    classify,
    demo,
    doctor,
    embed,
    evaluate,
    export,
    fill,
    generate,
    importing,
    ladder,
    look,
    neighbours,
    reach,
    recipes,
    show,
    summarize,
    tag,
    text,
    tokenizer,
    train,
)
from regard.errors import RegardError

app = typer.Typer(
    name="regard",
    help="The Transformer, whole: train it, use it, look into it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    recipes.recipes,
    show.show,
    doctor.doctor,
    train.train,
    evaluate.evaluate,
    text.translate,
    summarize.summarize,
    generate.generate,
    chat.chat,
    tag.tag,
    classify.classify,
    fill.fill,
    answer.answer,
    embed.embed,
    text.score,
    ladder.ladder,
    look.look,
    neighbours.neighbours,
    reach.reach,
    export.export,
    bench.bench,
):
    app.command()(command)
app.command("import")(importing.import_model)
app.add_typer(tokenizer.app, name="tokenizer")


@app.callback(invoke_without_command=True)
def version(show_version: bool = typer.Option(False, "--version", help="print the version and leave")) -> None:
    if show_version:
        print(f"regard {regard.__version__}")
        raise typer.Exit


def main() -> None:
    """Exit codes: 0, 1 error, 2 usage, 3 non-finite loss, 130 Ctrl-C, 143 SIGTERM."""
    is_debugging = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        app()
    except RegardError as error:
        if is_debugging:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 1))
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if is_debugging:
            raise
        print(f"error: {error.strerror or error}: {error.filename or 'a file'}; nothing was removed", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if is_debugging:
            raise
        log = Path("error.log")
        log.write_text(traceback.format_exc(), encoding="utf-8")
        print(
            f"error: {type(error).__name__}: {error}\nThis is a fault of regard, not of yours; nothing was removed. "
            f"The traceback is in {log}; run the command again with --debug to see it.",
            file=sys.stderr,
        )
        sys.exit(1)


if __name__ == "__main__":
    main()
