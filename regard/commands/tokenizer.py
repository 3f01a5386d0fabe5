"""regard tokenizer train, regard tokenizer show."""

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.lines import print_table, read_lines
from regard.data.notes import Notes
from regard.errors import RegardError

app = typer.Typer(help="Train a tokenizer on text; see how it splits text.", no_args_is_help=True)


@app.command()
def train(
    files: Annotated[list[Path], typer.Argument(help="UTF-8 text, one line each; .gz and .xz too")],
    vocab_size: Annotated[int, typer.Option(help="number of tokens, special ones included")] = 8000,
    kind: Annotated[str, typer.Option(help="bpe, words, spaces or characters")] = "bpe",
    min_count: Annotated[int, typer.Option(help="words that occur less often get no token")] = 1,
    extra: Annotated[list[str] | None, typer.Option(help='a further special token, such as "<mask>"')] = None,
    out: Annotated[Path, typer.Option(help="the file to write")] = Path("tokenizer.json"),
) -> None:
    """Train a tokenizer on text files and write it as tokenizer.json."""
    from regard.data.files import reading
    from regard.text.tokenizer import Tokenizer, TokenizerConfig

    if out.exists():
        raise RegardError(f"{out} exists already and is not overwritten; name another with --out")
    config = TokenizerConfig(kind=kind, vocab_size=vocab_size, min_count=min_count, extra=tuple(extra or ()))
    notes = Notes()
    lines = [line for file in files for line in reading.read_lines(file, notes)]
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
        print(f"the text yields only {tokenizer.vocab_size:,} tokens instead of {vocab_size:,}")
    print(f"{out}: {kind}, {tokenizer.vocab_size:,} tokens.  Next: regard tokenizer show {out} 'some text'")


@app.command()
def show(
    source: Annotated[Path, typer.Argument(metavar="RUN|FILE", help="a run folder or a tokenizer.json")],
    text: Annotated[str | None, typer.Argument(help="default: standard input")] = None,
) -> None:
    """Split a text into tokens and show, for BPE, the merges that made each of them."""
    from regard.text.tokenizer import Tokenizer
    from regard.text.unicode import visible

    tokenizer = Tokenizer.load(source)
    if text is None:
        text = "\n".join(read_lines(None))
    ids = tokenizer.encode(text)

    rows = [[str(n), visible(tokenizer.token(n))] for n in ids]
    if tokenizer.kind == "bpe":
        derived = {n: tokenizer.pairs.derivation(n) for n in dict.fromkeys(ids)}
        for n, row in zip(ids, rows, strict=True):
            row.append("  ".join("+".join(map(visible, tokenizer.tokens(pair))) for pair in derived[n]))
    print_table(("id", "token", *(["merges that made it"] if tokenizer.kind == "bpe" else [])), rows)
    print(f"{len(text)} characters, {len(ids)} tokens; a token may begin with its space (␣)")
    for piece in tokenizer.losses(text):
        print(f"lost: {visible(piece)}")
