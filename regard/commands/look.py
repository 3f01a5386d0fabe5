"""regard look, regard neighbours, regard reach: attention, embeddings and gradients of trained runs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import print_table
from regard.commands.options import Device, RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.tasks.language.reach import Reached
    from regard.text.tokenizer import Tokenizer

N_PICTURED = 60  # embeddings near a token, drawn with it


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
    from rich.console import Console

    from regard.viewer import page, picture
    from regard.viewer import terminal as in_terminal
    from regard.viewer.capture import visible

    loaded = regard.load(run, device)
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
    matches = find(tokenizer, token)
    for match in matches:
        cosines = nearest(vectors, match, n)
        rows = [(visible(tokenizer.token(other)), f"{cosine:.3f}") for other, cosine in cosines.items()]
        print_table(("token", "cosine"), rows, f"{visible(tokenizer.token(match))}  (id {match})")
    if png:
        from regard.viewer import picture

        drawn = sorted({other for match in matches for other in (match, *nearest(vectors, match, max(n, N_PICTURED)))})
        picture.embeddings(vectors[drawn].numpy(), [visible(text) for text in tokenizer.tokens(drawn)], png)
        print(f"{len(drawn)} embeddings drawn in {png}")


def find(tokenizer: "Tokenizer", text: str) -> list[int]:
    """The tokens with this text; for a text that is not one token, an error that names its pieces."""
    matches = tokenizer.lookup(text)
    if not matches:
        pieces = ", ".join(repr(piece) for piece in tokenizer.tokens(tokenizer.encode(text)))
        raise RegardError(f"{text!r} is not one token of this run but [{pieces}]; ask for one of these")
    return matches


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
    if png is not None:
        charts.reach({name: reached.shares for name, reached in measured.items()}, png)
        if not as_json:
            print(f"{png}: one line a run")


def shares(measured: "list[Reached]") -> list[list[str]]:
    """Shares of distance 0 at distances 1, 2, 4, 8 ... and the last."""
    from regard.tasks.language.reach import FADED

    longest = len(measured[0].norms) - 1
    distances = sorted({2**k for k in range(longest.bit_length())} | {longest})
    rows = [[str(distance), *(f"{reached.shares[distance]:.2g}" for reached in measured)] for distance in distances]
    faded = ["not here" if reached.faded is None else str(reached.faded) for reached in measured]
    return [*rows, [], [f"below {FADED:.0%} from", *faded]]
