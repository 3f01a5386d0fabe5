"""regard look: attention, in the terminal, as a picture or as a page."""

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import Device, RunFolder


def look(
    run: RunFolder,
    text: Annotated[str, typer.Argument(help="a sentence")] = "",
    target: Annotated[str | None, typer.Option(help="its translation (default: the model's own)")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="what --terminal and --png show: encoder, decoder or cross (default); of a language model self; "
            "of a Markov model votes (default) or ballots"
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="one layer, counted from 0 (default: the mean)")] = None,
    head: Annotated[int | None, typer.Option(help="one head, counted from 0 (default: the mean)")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="with --png: every head of every layer")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="with --html: queries, keys and values too")] = False,
    html: Annotated[Path | None, typer.Option(help="write the page here: one file, no network")] = None,
    png: Annotated[Path | None, typer.Option(help="draw a picture here")] = None,
    positions: Annotated[Path | None, typer.Option(help="draw the run's position encoding here")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="show it here, in characters")] = False,
    device: Device = None,
) -> None:
    """Look into attention per layer and head, or into votes; opens the page if no other output is given."""
    import sys

    from rich.console import Console

    from regard.runs.run import load
    from regard.viewer import page, picture
    from regard.viewer import terminal as in_terminal
    from regard.viewer.capture import visible

    loaded = load(run, device)
    if positions is not None:
        picture.positions(loaded.position_table(), positions)
        print(f"{positions}: the position encoding of {run}")
        if not text:
            return
    layers, heads = (None if number is None else [number] for number in (layer, head))
    capture = loaded.look(text, target, layers, heads, vectors)
    kind = kind or ("cross" if "cross" in capture.kinds else capture.kinds[0])
    if terminal or (not sys.stdout.isatty() and html is None and png is None):
        print(visible(capture.title))
        in_terminal.show(capture.pick(kind, layer, head), Console())
    if png is not None:
        if grid:
            picture.grid(capture, png, kind)
        else:
            picture.attention(capture, png, kind, layer, head)
        print(f"{png}: {capture.pick(kind, layer, head).name if not grid else f'all {kind} heads'}")
    if html is not None:
        page.write_page(capture, html)
        print(f"{html}: open it in any browser; it needs no network")
    if html is None and png is None and not terminal and sys.stdout.isatty():
        path = run / "attention.html"
        page.write_page(capture, path)
        print(f"{path}: opening it in the browser")
        typer.launch(str(path))
