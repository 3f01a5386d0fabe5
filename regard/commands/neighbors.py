"""regard neighbors: words whose embeddings are near, and analogies, listed and drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import print_table
from regard.commands.options import Overwrite, RunFolder
from regard.commands.replacing import ask_before_replacing
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.runs.run import Run
    from regard.tasks.request import Nearby
    from regard.text.tokenizer import Tokenizer

N_PICTURED = 60  # embeddings near all words together, drawn with them
GIVEN = "words of the analogy"  # their class
POINT = "analogy"  # the label of where it leads; the legend has the formula, which is too long for one


def neighbors(
    run: RunFolder,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="words or pieces, as the tokenizer has them")],
    minus: Annotated[str, typer.Option(help="of an analogy WORD - MINUS + PLUS: the word taken away")] = "",
    plus: Annotated[str, typer.Option(help="of an analogy: the word added")] = "",
    n: Annotated[int, typer.Option("-n", min=1, help="how many")] = 10,
    png: Annotated[
        Path | None, typer.Option(help="also draw the nearest embeddings in the plane (PCA), a color for each WORD")
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help="lines of WORD, tab, CLASS: --png draws these, a color for each class")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="with --png: on dark paper")] = False,
    overwrite: Overwrite = False,
) -> None:
    """List the tokens whose embeddings are nearest to a word's, by cosine, or to those of an analogy."""
    from regard.text.unicode import visible

    if classes is not None and png is None:
        raise typer.BadParameter("--classes says what --png draws: give both")
    ask_before_replacing(png, overwrite=overwrite)
    loaded = regard.load(run)
    loaded.check_can("neighbors")
    drawn = {} if classes is None else read_classes(classes, loaded.tokenizer)
    asked: list[Nearby] = []
    for word in words:
        for near in loaded.neighbors(word, minus, plus, n):
            asked.append(near)
            if minus or plus:  # the words of an analogy are drawn, whatever else is
                drawn = dict.fromkeys((i for i, _ in near.terms), GIVEN) | drawn
            rows = [(visible(neighbor.token), f"{neighbor.cosine:.3f}") for neighbor in near.neighbors]
            formula = f"{visible(near.token)}{near.formula[len(near.token) :]}"
            name = "ids" if len(near.terms) > 1 else "id"
            print_table(("token", "cosine"), rows, f"{formula}  ({name} {', '.join(str(i) for i, _ in near.terms)})")
        if png and classes is None:
            for near in loaded.neighbors(word, minus, plus, max(n, N_PICTURED // len(words))):
                ids = (*(i for i, _ in near.terms), *(neighbor.id for neighbor in near.neighbors))
                drawn |= {i: near.formula.strip(" ") for i in ids if i not in drawn}
    if png:
        draw(loaded, drawn, asked, png, dark)
        print(f"{len(drawn)} embeddings drawn in {png}")


def draw(run: "Run", drawn: dict[int, str], asked: "list[Nearby]", path: Path, dark: bool) -> None:
    """Tokens with their classes; those asked about are ringed, and so is the point that an analogy leads to, which is
    drawn among vectors of length 1, as it is computed."""
    import torch

    from regard.tasks.neighbors import point_of, unit_vectors
    from regard.viewer.plane import embeddings
    from regard.viewer.style import DARK, LIGHT

    ids, analogies = sorted(drawn), [near for near in asked if len(near.terms) > 1]
    table = run.model.word_vectors
    assert table is not None, "its neighbors were found"
    if analogies:
        unit = unit_vectors(table)
        vectors = torch.stack([*unit[ids], *(point_of(unit, near.terms) for near in analogies)])
    else:
        vectors = table[ids].detach().float()
    tokens = run.tokenizer.tokens(ids)
    space = " " * any(token.startswith(" ") for token in tokens)  # or the label would look like a part of a word
    tokens = [*tokens, *[space + POINT] * len(analogies)]
    classes = [*(drawn[i] for i in ids), *(near.formula.strip(" ") for near in analogies)]
    given = {i for near in asked for i, _ in near.terms}
    marked = [place for place, i in enumerate(ids) if i in given] + list(range(len(ids), len(tokens)))
    embeddings(vectors.cpu().numpy(), tokens, path, classes, marked, DARK if dark else LIGHT)


def read_classes(path: Path, tokenizer: "Tokenizer") -> dict[int, str]:
    """The class of each token that reads as a word of the file does."""
    from regard.data.files.reading import read_lines
    from regard.tasks.neighbors import tokens_of

    kinds: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        word, tab, kind = line.partition("\t")
        if not (word and tab and kind):
            raise RegardError(f"{path}:{number} is not a word, a tab and its class, but {line[:60]!r}")
        try:
            ids = tokens_of(word, tokenizer)
        except RegardError as error:
            raise RegardError(f"{path}:{number}: {error}") from None
        earlier = next((kinds[i] for i in ids if kinds.get(i, kind) != kind), None)
        if earlier is not None:
            raise RegardError(
                f"{path}:{number}: {word[:60]!r} is of class {kind[:60]!r}, and above of {earlier[:60]!r}"
            )
        kinds |= dict.fromkeys(ids, kind)
    if len(kinds) < 2:
        raise RegardError(f"a picture needs two words with a class or more: add lines to {path}")
    return kinds
