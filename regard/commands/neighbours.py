"""regard neighbours: the tokens whose embeddings point the same way."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import RunFolder
from regard.errors import RegardError

if TYPE_CHECKING:
    from torch import Tensor

    from regard.text.tokenizer import Tokenizer

N_PICTURED = 60


def neighbours(
    run: RunFolder,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="a word or a piece of one, as the tokenizer has it")],
    n: Annotated[int, typer.Option("-n", min=1, help="how many")] = 10,
    png: Annotated[Path | None, typer.Option(help="also draw the nearest embeddings in the plane (PCA)")] = None,
) -> None:
    """List the tokens whose embeddings are nearest to a token's, by cosine."""
    import regard
    from regard.commands.tables import print_table
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
