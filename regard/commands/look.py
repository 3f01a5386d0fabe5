"""regard look, regard neighbours, regard reach: attention, embeddings and gradients of a model."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import print_table
from regard.commands.options import Device, RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.tasks.language.use import Reached
    from regard.viewer.capture import Capture

N_PIECES = 20  # of a text that is not one token, named in the message
N_PICTURED = 60  # embeddings near a token, drawn with it


def look(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="a run folder")] = None,
    text: Annotated[str, typer.Argument(metavar="[TEXT|IMAGE]", help="a sentence, or an image file")] = "",
    target: Annotated[str | None, typer.Option(help="its translation (default: the model's own)")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="what --terminal and --png show: encoder, decoder or cross (default); of a language model self; "
            "of a model that reads images self (default) or rollout; of a Markov model votes (default) or ballots"
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="one layer, counted from 0 (default: the mean)")] = None,
    head: Annotated[int | None, typer.Option(help="one head, counted from 0 (default: the mean)")] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            metavar="ROW,COLUMN", help="of an image: where this patch looks (default: the class row, or the mean)"
        ),
    ] = None,
    grid: Annotated[bool, typer.Option("--grid", help="with --png: every head of every layer")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="with --html: queries, keys and values too")] = False,
    html: Annotated[Path | None, typer.Option(help="write the page here: one file, no network")] = None,
    png: Annotated[Path | None, typer.Option(help="draw a picture here")] = None,
    positions: Annotated[Path | None, typer.Option(help="draw the run's own position encoding here")] = None,
    sinusoids: Annotated[
        Path | None, typer.Option(help="draw the lectures' table here, 60 positions by 32 channels; needs no run")
    ] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="show it here, in characters")] = False,
    device: Device = None,
) -> None:
    """Look into attention per layer and head, or into votes; opens the page if no other output is given."""
    from regard.viewer import page, picture
    from regard.viewer.capture import KINDS
    from regard.viewer.encodings import lecture_table

    if run is None and (sinusoids is None or terminal or any((positions, html, png))):
        raise typer.BadParameter("a run folder is missing; only --sinusoids needs none")
    if sinusoids is not None:
        lecture = lecture_table()
        picture.positions([lecture], sinusoids)
        print(f"{sinusoids}: {lecture.title}")
    if run is None:
        return
    loaded = regard.load(run, device)
    if positions is not None:
        tables = loaded.position_tables()
        picture.positions(tables, positions)
        print(f"{positions}: {'; '.join(table.title for table in tables)}")
    if not text and (positions or sinusoids):
        return
    is_named = (kind, layer, head) != (None, None, None)
    if kind in KINDS and not KINDS[kind].has_heads and (layer, head) != (None, None):
        raise RegardError(f"{kind} is one map, of all layers and heads: leave out --layer and --head")
    layers, heads = (None if number is None else [number] for number in (layer, head))
    capture = loaded.look(text, target, layers, heads, vectors)
    kind = kind or ("cross" if "cross" in capture.kinds else capture.kinds[0])
    if is_named:
        capture = replace(capture, opens=(kind, layer, head))
    if patch is not None:
        capture = replace(capture, query=place_of(patch, capture, kind))
    if terminal or (not sys.stdout.isatty() and html is None and png is None):
        show_here(capture, kind, layer, head)
    if png is not None:
        drawn = draw(capture, kind, layer, head, grid, png)
        print(f"{png}: {drawn}")
    if html is not None:
        page.write_page(capture, html)
        print(f"{html}: open it in any browser; it needs no network")
    if html is None and png is None and not terminal and sys.stdout.isatty():
        path = run / "attention.html"
        page.write_page(capture, path)
        print(f"{path}: opening it in the browser")
        typer.launch(str(path))


def place_of(patch: str, capture: "Capture", kind: str) -> int:
    """Which row of an image a patch is, given as "2,3"."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*,\s*(\d{1,9})\s*", patch)
    if found is None:
        raise typer.BadParameter(f"--patch takes a row and a column, such as 2,3; got {patch!r}")
    if capture.image is None:
        raise RegardError("--patch is for runs that read images")
    if "queries" not in capture.about(kind).patches:
        raise RegardError(
            f"--patch: in {kind} attention, words look at the image; leave it out, or choose another --kind"
        )
    return capture.image.place(int(found[1]), int(found[2]))


def show_here(capture: "Capture", kind: str, layer: int | None, head: int | None) -> None:
    from rich.console import Console

    from regard.viewer import half_blocks, terminal
    from regard.viewer.capture import visible

    map = capture.pick(kind, layer, head)
    print(visible(capture.title))
    if "keys" in capture.about(kind).patches:
        half_blocks.show(capture, map, Console())
    else:
        terminal.show(map, Console())


def draw(capture: "Capture", kind: str, layer: int | None, head: int | None, grid: bool, path: Path) -> str:
    """A PNG file, and what is on it."""
    from regard.viewer import panels, picture

    is_on_image = "keys" in capture.about(kind).patches
    if grid:
        (panels.draw_heads if is_on_image else picture.grid)(capture, path, kind)
        return f"all {kind} heads"
    map = capture.pick(kind, layer, head)
    if is_on_image:
        panels.draw_looks(capture, map, path)
    else:
        picture.attention(map, path)
    return map.name


def neighbours(
    run: RunFolder,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="a word or a piece of one, as the tokenizer has it")],
    n: Annotated[int, typer.Option("-n", min=1, help="how many")] = 10,
    png: Annotated[Path | None, typer.Option(help="also draw the nearest embeddings in the plane (PCA)")] = None,
) -> None:
    """List the tokens whose embeddings are nearest to a token's, by cosine."""
    from regard.text.unicode import visible

    loaded = regard.load(run)
    tokenizer = loaded.tokenizer
    table = loaded.model.word_vectors
    if table is None:
        raise RegardError(f"{run} has no embeddings: its model counts words")
    vectors = table.detach().float().cpu()[: tokenizer.vocab_size]  # (V, D)
    matches = tokenizer.lookup(token)
    if not matches:
        known = [n for n in tokenizer.encode(token) if n != tokenizer.unknown_id]
        raise RegardError(not_one_token(token, tokenizer.tokens(known)))
    for match in matches:
        cosines = nearest(vectors, match, n)
        rows = [(visible(tokenizer.token(other)), f"{cosine:.3f}") for other, cosine in cosines.items()]
        print_table(("token", "cosine"), rows, f"{visible(tokenizer.token(match))}  (id {match})")
    if png:
        from regard.viewer import picture

        drawn = sorted({other for match in matches for other in (match, *nearest(vectors, match, max(n, N_PICTURED)))})
        picture.embeddings(vectors[drawn].numpy(), [visible(text) for text in tokenizer.tokens(drawn)], png)
        print(f"{len(drawn)} embeddings drawn in {png}")


def not_one_token(text: str, pieces: list[str]) -> str:
    """The message, whose length does not depend on that of the text."""
    what = f"{text[:60]!r} is not one token of this run"
    if not pieces:
        return f"{what}, and neither is any part of it; regard tokenizer show splits a text into tokens"
    shown = ", ".join(map(repr, pieces[:N_PIECES])) + ", ..." * (len(pieces) > N_PIECES)
    return f"{what} but [{shown}]; ask for one of these"


def nearest(vectors: "Tensor", chosen: int, n: int) -> dict[int, float]:
    """The n rows, other than the chosen one, of the largest cosine u·v / |u||v|, the largest first."""
    from torch.nn.functional import cosine_similarity

    cosines = cosine_similarity(vectors, vectors[chosen : chosen + 1])  # (V,)
    order = [row for row in cosines.argsort(descending=True, stable=True).tolist() if row != chosen]
    return {row: cosines[row].item() for row in order[:n]}


def reach(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="runs of language models")],
    text: Annotated[list[Path] | None, typer.Option(help="a text to measure on (default: the recipe's)")] = None,
    distance: Annotated[int, typer.Option(min=1, help="how many tokens back")] = 100,
    passages: Annotated[int, typer.Option(min=1, help="number of passages to average over")] = 64,
    png: Annotated[Path | None, typer.Option(help="draw a picture here, one line a run")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, with every distance")] = False,
    device: Device = None,
) -> None:
    """Measure how much the loss at the end of a passage depends on each state before it: |∂L/∂h| by distance."""
    from regard.viewer import charts

    short = {run: run.name for run in runs}
    names = short if len(set(short.values())) == len(runs) else {run: str(run) for run in runs}
    files = [str(path) for path in text or ()]
    measured = {names[run]: regard.load(run, device).reach(files, distance, passages) for run in runs}
    if as_json:
        records = [
            {"run": name, "passages": reached.n_passages, "faded": reached.faded, "norms": reached.norms.tolist()}
            for name, reached in measured.items()
        ]
        print(json.dumps(records, indent=2))
    else:
        title = "|∂L/∂h| at a distance, as a share of that at distance 0"
        print_table(("distance", *measured), shares(list(measured.values())), title, are_numbers=True)
        if len(measured) > 1:
            print("Training changes this: after another number of steps, the order of the runs can be another.")
    if png is not None:
        charts.reach({name: reached.shares for name, reached in measured.items()}, png)
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
