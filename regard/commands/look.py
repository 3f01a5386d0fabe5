"""regard look, regard show, regard neighbours, regard reach: attention, parts, embeddings and gradients of a model."""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import print_table
from regard.commands.options import Device, Overrides, RecipeName, RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

    from regard.models.interface import Model
    from regard.runs.recipe import Recipe
    from regard.tasks.language.use import Reached

MACHINES = (("a 2-core CPU", 0.1), ("an H200", 300.0))  # TFLOP/s
# What the paper says (Vaswani et al. 2017, table 2) and how its authors counted: time x GPUs x sustained rate.
PUBLISHED = {"transformer-base": (3.3e18, 12 / 24, 8), "transformer-big": (2.3e19, 3.5, 8)}
P100 = 9.5e12  # FLOP/s that the paper takes for a P100, single precision
N_PIECES = 20  # of a text that is not one token, named in the message
N_PICTURED = 60  # embeddings near a token, drawn with it


def look(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="a run folder")] = None,
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
    positions: Annotated[Path | None, typer.Option(help="draw the run's own position encoding here")] = None,
    sinusoids: Annotated[
        Path | None, typer.Option(help="draw the lectures' table here, 60 positions by 32 channels; needs no run")
    ] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="show it here, in characters")] = False,
    device: Device = None,
) -> None:
    """Look into attention per layer and head, or into votes; opens the page if no other output is given."""
    from rich.console import Console

    from regard.viewer import page, picture
    from regard.viewer import terminal as in_terminal
    from regard.viewer.capture import visible
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
    layers, heads = (None if number is None else [number] for number in (layer, head))
    capture = loaded.look(text, target, layers, heads, vectors)
    is_named = (kind, layer, head) != (None, None, None)
    kind = kind or ("cross" if "cross" in capture.kinds else capture.kinds[0])
    if is_named:
        capture = replace(capture, opens=(kind, layer, head))
    if terminal or (not sys.stdout.isatty() and html is None and png is None):
        print(visible(capture.title))
        in_terminal.show(capture.pick(kind, layer, head), Console())
    if png is not None:
        if grid:
            picture.grid(capture, png, kind)
            print(f"{png}: all {kind} heads")
        else:
            picture.attention(capture.pick(kind, layer, head), png)
            print(f"{png}: {capture.pick(kind, layer, head).name}")
    if html is not None:
        page.write_page(capture, html)
        print(f"{html}: open it in any browser; it needs no network")
    if html is None and png is None and not terminal and sys.stdout.isatty():
        path = run / "attention.html"
        page.write_page(capture, path)
        print(f"{path}: opening it in the browser")
        typer.launch(str(path))


def show(recipe: RecipeName, set_: Overrides = None) -> None:
    """Show a model's parts with shapes, parameters, FLOPs per token, memory and the cost of its training."""
    import torch
    from rich.console import Console
    from rich.table import Table

    from regard.runs.recipe import Recipe
    from regard.runs.weights import read_tensors
    from regard.training.prepare import parameters_by_part

    console = Console()
    chosen = Recipe.read(recipe, set_ or [])
    if chosen.model_class.is_counted:
        table = Table("part", "shape", "numbers", title=f"{chosen.name}: {chosen.architecture}, by counting")
        weights = Path(recipe) / "model.safetensors"
        add_parts(table, sorted(read_tensors(weights).items()) if weights.is_file() else ())
        table.add_row("parameters", "", "0", style="bold", end_section=True)
        console.print(table, "Trained in one pass over the text; what it holds is what was counted.")
        return
    with torch.device("meta"):  # shapes without memory
        model = chosen.build_model()
    table = Table("part", "shape", "parameters", title=f"{chosen.name}: {chosen.architecture}")
    add_parts(table, model.named_parameters())
    for part, count in parameters_by_part(model).items():
        table.add_row(part, "", f"{count:,}", style="bold", end_section=True)
    console.print(table, costs(chosen, model))


def add_parts(table: "Table", tensors: "Iterable[tuple[str, Tensor]]") -> None:
    """One row for what is alike in several layers: blocks.0-5.norm.weight."""
    alike: dict[tuple[str, str], list[tuple[str, Tensor]]] = {}
    for name, tensor in tensors:
        shape = " × ".join(map(str, tensor.shape))
        alike.setdefault((re.sub(r"\.\d+\.", ".#.", name), shape), []).append((name, tensor))
    for (pattern, shape), named in alike.items():
        n_numbers = sum(tensor.numel() for _, tensor in named)
        table.add_row(joined(pattern, [name for name, _ in named]), shape, f"{n_numbers:,}")


def joined(pattern: str, names: list[str]) -> str:
    """The names in one: a number that differs is written from its first to its last."""
    numbers = [re.findall(r"(?<=\.)\d+(?=\.)", name) for name in names]
    for column in zip(*numbers, strict=True):
        first, last = column[0], column[-1]
        pattern = pattern.replace("#", first if first == last else f"{first}-{last}", 1)
    return pattern


def costs(chosen: "Recipe", model: "Model") -> "Table":
    from rich.table import Table

    from regard.runs.card import duration
    from regard.training.prepare import training_memory

    table = Table("cost", "figure", "how", title="What it takes")
    cost = model.cost(chosen.task.window)
    table.add_row("FLOPs per token", f"{cost.forward:.3g} forward, {3 * cost.forward:.3g} training", cost.how)
    memory = training_memory(chosen, model) / 2**20
    table.add_row(
        "memory to train",
        f"about {memory:,.0f} MiB" if memory < 10_000 else f"about {memory / 1024:,.0f} GiB",
        "weights, gradients, Adam's moments, one batch",
    )
    n_tokens = chosen.training.steps * chosen.training.accumulate * chosen.data.batch_tokens
    whole = 3 * cost.forward * n_tokens  # forward once, backward twice that
    table.add_row("the whole training", f"{whole:.2g} FLOPs", f"{chosen.training.steps:,} steps of this recipe")
    for what, tera in MACHINES[: 1 if cost.is_sequential else 2]:
        table.add_row(f"expected time, {what}", duration(whole / (tera * 1e12)), f"at {tera:g} TFLOP/s")
    if chosen.name in PUBLISHED:
        flops, days, n_gpus = PUBLISHED[chosen.name]
        how = f"{days:g} days × {n_gpus} P100 × 9.5 TFLOP/s: capacity, not work done"
        table.add_row("the paper says", f"{flops:.2g} FLOPs", "Vaswani et al. 2017, table 2")
        table.add_row("as its authors counted", f"{days * 86400 * n_gpus * P100:.2g} FLOPs", how)
    return table


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
