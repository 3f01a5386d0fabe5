"""regard look, regard reach: attention and gradients of a model."""

import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import print_table, short_names
from regard.commands.options import Device, Overwrite
from regard.commands.replacing import ask_before_replacing, free_name
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.run import Run
    from regard.tasks.language.use import Reached
    from regard.viewer.capture import Capture

N_UNKNOWN = 10  # words that are named


def look(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="a run folder")] = None,
    text: Annotated[
        str, typer.Argument(metavar="[TEXT|FILE]", help="a sentence, an image file, or a table of series")
    ] = "",
    target: Annotated[
        str | None,
        typer.Option(help="its translation (default: the model's own); of series a column (default: the mean)"),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="what --terminal and --png show: encoder, decoder or cross (default); of a language model self; "
            "of a model that reads images self (default) or rollout; of a Markov model votes (default) or ballots; "
            "of a forecaster patches or columns; across (default), past or future; of a bag of words ngrams, or "
            "without a text vocabulary; of a recurrent model gates (default), forget, reset, update, output, "
            "candidate, cell or hidden; of XLNet query (default) or content"
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="one layer, counted from 0 (default: the mean; of units the last layer)")
    ] = None,
    head: Annotated[
        int | None, typer.Option(help="one head (or direction), counted from 0 (default: the mean; of units the first)")
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            metavar="ROW,COLUMN", help="of an image: where this patch looks (default: the class row, or the mean)"
        ),
    ] = None,
    part: Annotated[
        int, typer.Option(min=1, help="which part to show of a text that is too long to be shown at once")
    ] = 1,
    grid: Annotated[bool, typer.Option("--grid", help="with --png: every head (or gate) of every layer")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="with --html: queries, keys and values too")] = False,
    html: Annotated[Path | None, typer.Option(help="write the page here: one file, no network")] = None,
    png: Annotated[Path | None, typer.Option(help="draw a picture here")] = None,
    positions: Annotated[Path | None, typer.Option(help="draw the run's own position encoding here")] = None,
    sinusoids: Annotated[
        Path | None, typer.Option(help="draw the lectures' table here, 60 positions by 32 channels; needs no run")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="pictures on dark paper")] = False,
    terminal: Annotated[bool, typer.Option("--terminal", help="show it here, in characters")] = False,
    overwrite: Overwrite = False,
    device: Device = None,
) -> None:
    """Look into attention per layer and head, or into votes; opens the page if no other output is given.

    A bag of words shows which n-grams of a text speak for which label; without a text, those of the whole model.
    """
    from regard.viewer import page, picture
    from regard.viewer.encodings import lecture_table
    from regard.viewer.kinds import KINDS
    from regard.viewer.style import DARK, LIGHT

    style = DARK if dark else LIGHT
    if run is None and (sinusoids is None or terminal or any((positions, html, png))):
        raise typer.BadParameter("a run folder is missing; only --sinusoids needs none")
    if grid and png is None:
        raise typer.BadParameter("--grid says what --png draws: give both")
    ask_before_replacing(sinusoids, positions, html, png, overwrite=overwrite)
    if sinusoids is not None:
        lecture = lecture_table()
        picture.positions([lecture], sinusoids, style)
        print(f"{sinusoids}: {lecture.title}")
    if run is None:
        return
    loaded = regard.load(run, device)
    if positions is not None:
        tables = loaded.position_tables()
        picture.positions(tables, positions, style)
        print(f"{positions}: {'; '.join(table.title for table in tables)}")
    if not text and (positions or sinusoids):
        return
    is_named = (kind, layer, head) != (None, None, None)
    if kind in KINDS and not KINDS[kind].has_heads and (layer, head) != (None, None):
        raise RegardError(f"{kind} is one map, of all layers and heads: leave out --layer and --head")
    layers, heads = (None if number is None else [number] for number in (layer, head))
    capture = loaded.look(text, target, layers, heads, vectors, part)
    if capture.n_parts > 1:
        shown = f"this is part {part}, and --part N shows another"
        print(f"note: too long to be shown at once: it has {capture.n_parts} parts; {shown}", file=sys.stderr)
    for note in capture.notes:
        print(f"note: {note}", file=sys.stderr)
    note_unknown(loaded, loaded.task.reading(text), target or "")
    if grid and kind is not None and not terminal and any(KINDS[name].has_units for name in capture.kinds):
        raise typer.BadParameter("--grid draws all gates and states of a recurrent model: leave out --kind")
    kind = kind or capture.first_kind
    if is_named:
        capture = replace(capture, opens=(kind, layer, head))
    if patch is not None:
        capture = replace(capture, query=place_of(patch, capture, kind))
    is_shown_here = not sys.stdout.isatty() or not capture.has_page
    if terminal or (is_shown_here and html is None and png is None):
        show_here(capture, kind, layer, head)
    if png is not None:
        print(f"{png}: {capture.draw(png, kind, layer, head, grid, dark)}")
    if html is not None:
        page.write_page(capture, html)
        print(f"{html}: open it in any browser; it needs no network")
    if html is None and png is None and not terminal and not is_shown_here:
        path = free_name(run / "attention.html")
        page.write_page(capture, path)
        opened = typer.launch(str(path)) == 0
        print(f"{path}: {'opened in the browser' if opened else 'no browser was found here; open this file in any'}")


def note_unknown(run: "Run", *texts: str) -> None:
    """Words that the model does not know are all the same to it, and say little when looked at."""
    if run.task.takes_files or not run.task.reads_text:
        return
    unknown = list(dict.fromkeys(word for text in texts for word in run.tokenizer.unknown(text)))
    if unknown:
        words = ", ".join(f"{word!r:.40}" for word in unknown[:N_UNKNOWN]) + ", …" * (len(unknown) > N_UNKNOWN)
        print(f"note: not in the vocabulary, read as unknown: {words}", file=sys.stderr)


def place_of(patch: str, capture: "Capture", kind: str) -> int:
    """Which row of an image a patch is, given as "2,3"."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*,\s*(\d{1,9})\s*", patch)
    if match is None:
        raise typer.BadParameter(f"--patch takes a row and a column, such as 2,3; got {patch!r}")
    if capture.image is None:
        raise RegardError("--patch is for runs that read images")
    if "queries" not in capture.about(kind).patches:
        raise RegardError(
            f"--patch: in {kind} attention, words look at the image; leave it out, or choose another --kind"
        )
    return capture.image.place(int(match[1]), int(match[2]))


def show_here(capture: "Capture", kind: str, layer: int | None, head: int | None) -> None:
    from rich.console import Console

    from regard.viewer import half_blocks, terminal
    from regard.viewer.map_set import visible

    map = capture.pick(kind, layer, head)
    print(visible(capture.title))
    if "keys" in capture.about(kind).patches:
        half_blocks.show(capture, map, Console())
    else:
        terminal.show(map, Console())


def reach(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="runs of language models")],
    text: Annotated[list[Path] | None, typer.Option(help="a text to measure on (default: the recipe's)")] = None,
    distance: Annotated[int, typer.Option(min=1, help="how many tokens back")] = 100,
    passages: Annotated[
        int | None, typer.Option(min=1, help="passages to average over (default: 64; with --jacobians, 4)")
    ] = None,
    jacobians: Annotated[
        bool, typer.Option("--jacobians", help="of recurrent models: the norm of the product of Jacobians, ‖∂h_T/∂h‖")
    ] = False,
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="with --png: on dark paper")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with every distance")] = False,
    overwrite: Overwrite = False,
    device: Device = None,
) -> None:
    """Measure how much the loss at the end of a passage depends on each state before it: |∂L/∂h| by distance.

    With --jacobians: how much the last state depends on each state before it.
    """
    from regard.viewer import charts
    from regard.viewer.style import DARK, LIGHT

    ask_before_replacing(png, overwrite=overwrite)
    names = short_names(runs)
    files = [str(path) for path in text or ()]
    measured = {names[run]: regard.load(run, device).reach(files, distance, passages, jacobians) for run in runs}
    what = "‖∂h_T/∂h‖" if jacobians else "|∂L/∂h|"
    if as_json:
        records = [
            {"run": name, "passages": reached.n_passages, "faded": reached.faded}
            # JSON has no inf: what is beyond the range of floats is null.
            | {"norms": [norm if math.isfinite(norm) else None for norm in reached.norms.tolist()]}
            for name, reached in measured.items()
        ]
        print(json.dumps(records, indent=2, allow_nan=False))
    else:
        title = f"{what} at a distance, as a share of that at distance 0"
        print_table(("distance", *measured), shares(list(measured.values())), title, are_numbers=True)
        if len(measured) > 1:
            print("Training changes this: after another number of steps, the order of the runs can be another.")
    if png is not None:
        curves = {name: reached.shares for name, reached in measured.items()}
        charts.reach(curves, png, what, DARK if dark else LIGHT)
        if not as_json:
            print(f"{png}: one line a run")


def shares(measured: "list[Reached]") -> list[list[str]]:
    """Shares of distance 0 at distances 1, 2, 4, 8 ... and the last."""
    from regard.tasks.language.use import FADED

    longest = len(measured[0].norms) - 1
    distances = sorted({2**k for k in range(longest.bit_length())} | {longest})
    rows = [[str(distance), *(f"{reached.shares[distance]:.2g}" for reached in measured)] for distance in distances]
    faded = ["not here" if reached.faded is None else str(reached.faded) for reached in measured]
    return [*rows, [], [f"below {FADED:.0%} from", *faded]]
