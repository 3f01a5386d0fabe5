"""regard neighbours: the tokens whose embeddings point the same way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import RegardError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.text.tokenizer import Tokenizer

N_PICTURED = 60


def neighbours(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")],
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="a word or a piece of one, as the tokenizer has it")],
    n: Annotated[int, typer.Option("-n", min=1, help="how many")] = 10,
    png: Annotated[Path | None, typer.Option(help="also draw the nearest embeddings in the plane (PCA)")] = None,
) -> None:
    """List the tokens whose embeddings are nearest to a token's, by cosine."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    import regard
    from regard.text.unicode import visible

    loaded = regard.load(run)
    tokenizer = loaded.tokenizer
    table = getattr(loaded.model, "embedding", None)
    if table is None:
        raise RegardError(f"{run} has no embeddings: its model counts words, it does not place them in a space")
    vectors = table.weight.detach().float().cpu()[: tokenizer.vocab_size]  # (V, D)
    found = find(tokenizer, token)
    for chosen in found:
        rows = Table("token", "cosine", title=Text(f"{visible(tokenizer.token(chosen))}  (id {chosen})"))
        for other, cosine in nearest(vectors, chosen, n).items():
            rows.add_row(Text(visible(tokenizer.token(other))), f"{cosine:.3f}")
        Console().print(rows)
    if png:
        from regard.viewer import picture

        drawn = sorted({other for chosen in found for other in (chosen, *nearest(vectors, chosen, max(n, N_PICTURED)))})
        picture.embeddings(vectors[drawn].numpy(), [visible(text) for text in tokenizer.tokens(drawn)], png)
        print(f"{len(drawn)} embeddings drawn in {png}")


def find(tokenizer: "Tokenizer", text: str) -> list[int]:
    """The tokens that read so; for a text that is not one token, an error that names its pieces."""
    found = tokenizer.lookup(text)
    if not found:
        pieces = ", ".join(repr(piece) for piece in tokenizer.tokens(tokenizer.encode(text)))
        raise RegardError(f"{text!r} is not one token of this run but [{pieces}]; ask for one of these")
    return found


def nearest(vectors: "Tensor", chosen: int, n: int) -> dict[int, float]:
    """The n rows, other than the chosen one, of the largest cosine u·v / |u||v|, the largest first."""
    from torch.nn.functional import cosine_similarity

    cosines = cosine_similarity(vectors, vectors[chosen : chosen + 1])  # (V,)
    order = [row for row in cosines.argsort(descending=True, stable=True).tolist() if row != chosen]
    return {row: cosines[row].item() for row in order[:n]}
