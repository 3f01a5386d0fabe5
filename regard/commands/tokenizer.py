"""regard tokenizer train, regard tokenizer show."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Learn a tokenizer from text; see how it cuts text.", no_args_is_help=True)


@app.command()
def train(
    files: Annotated[list[Path], typer.Argument(help="UTF-8 text, one line each; .gz and .xz too")],
    vocab_size: Annotated[int, typer.Option(help="tokens, the special ones included")] = 8000,
    kind: Annotated[str, typer.Option(help="bpe, words, spaces or characters")] = "bpe",
    min_count: Annotated[int, typer.Option(help="what occurs less often gets no token")] = 1,
    extra: Annotated[list[str] | None, typer.Option(help='a further special token, such as "<mask>"')] = None,
    out: Annotated[Path, typer.Option(help="the file to write")] = Path("tokenizer.json"),
) -> None:
    """Learn a vocabulary from text files and write it as tokenizer.json."""
    from regard.data.files.reading import read_lines
    from regard.data.notes import Notes
    from regard.errors import RegardError
    from regard.text.tokenizer import Tokenizer, TokenizerConfig

    if out.exists():
        raise RegardError(f"{out} is there already, and nothing is written over: name another with --out")
    config = TokenizerConfig(kind=kind, vocab_size=vocab_size, min_count=min_count, extra=tuple(extra or ()))
    notes = Notes()
    lines = [line for file in files for line in read_lines(file, notes)]
    tokenizer = Tokenizer.train(lines, config)
    out.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(out)

    encoded = tokenizer.encode_batch(lines)
    n_tokens = sum(len(ids) for ids in encoded)
    n_unknown = sum(ids.count(tokenizer.unknown_id) for ids in encoded)
    n_words = sum(len(line.split()) for line in lines)
    for note in notes.rows():
        print(note)
    print(f"{len(lines):,} lines, {n_words:,} words → {n_tokens:,} tokens ({n_tokens / max(1, n_words):.2f} a word)")
    if n_unknown:
        print(f"{n_unknown:,} of them ({n_unknown / n_tokens:.2%}) are unknown: too rare for {vocab_size:,} tokens")
    if tokenizer.vocab_size < vocab_size:
        print(f"the text has no more to learn: {tokenizer.vocab_size:,} tokens instead of {vocab_size:,}")
    print(f"{out}: {kind}, {tokenizer.vocab_size:,} tokens.  Next: regard tokenizer show {out} 'some text'")


@app.command()
def show(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="a run folder or a tokenizer.json")],
    text: Annotated[str | None, typer.Argument(help="without it, standard input is read")] = None,
) -> None:
    """Cut a text into tokens and show, for BPE, the merges that made each of them."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from regard.text.tokenizer import Tokenizer
    from regard.text.unicode import visible

    tokenizer = Tokenizer.load(source)
    if text is None:
        text = sys.stdin.read().removesuffix("\n")
    ids = tokenizer.encode(text)

    table = Table("id", "token", *(["merges that made it"] if tokenizer.kind == "bpe" else []))
    for n in ids:
        cells = [str(n), visible(tokenizer.token(n))]
        if tokenizer.kind == "bpe":
            pairs = tokenizer.pairs.derivation(n)
            cells.append("  ".join("+".join(map(visible, tokenizer.tokens(pair))) for pair in pairs))
        table.add_row(*map(Text, cells))
    console = Console()
    console.print(table)
    console.print(f"{len(text)} characters, {len(ids)} tokens; a token may begin with its space (␣)", style="dim")
    for piece in tokenizer.losses(text):
        console.print(f"lost: {visible(piece)}", markup=False)
