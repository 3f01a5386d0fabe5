"""regard embed, regard search, regard score: what is answered with numbers."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

import regard
from regard.commands.lines import answered, read_lines, say_notes, write_line
from regard.commands.options import Device, InputFile, InputPaths, RunFolder
from regard.commands.progress import working
from regard.commands.verbs import lines_or_files
from regard.data.notes import Notes
from regard.errors import ConfigError


def embed(
    run: RunFolder,
    files: InputPaths = None,
    pooling: Annotated[str, typer.Option(help="of a line's rows: mean, first, last or max")] = "mean",
    layer: Annotated[int | None, typer.Option(help="of ELMo: this layer, 0 being the embeddings")] = None,
    out: Annotated[Path | None, typer.Option(help="write all vectors to this .npy file instead")] = None,
    device: Device = None,
) -> None:
    """Make a vector of each line: N lines in, N vectors out, each a JSON list.

    A line that is too long for the model is split, and gets the mean of its parts' vectors.
    """
    import numpy as np

    from regard.tasks.embedding import read_in_pieces

    if out is not None and out.suffix != ".npy":
        raise ConfigError(f"--out writes a NumPy file: its name must end in .npy, got {out}")
    loaded = regard.load(run, device)
    loaded.check_can("embed")
    file, names = lines_or_files(loaded, files or [])

    def say_split(number: int, line: str) -> None:
        if loaded.task.takes_files:
            return
        n_parts = len(read_in_pieces(line, loaded.task.encode, loaded.model.read_at_once))
        say_notes(number, [f"split into {n_parts}, the mean of which is given"] if n_parts > 1 else [])

    if out is not None:
        lines = names or list(read_lines(file))
        with working(f"embedding {len(lines):,} lines"):
            vectors = loaded.embed(lines, pooling, layer)
        np.save(out, vectors)
        print(f"{len(vectors):,} vectors of {vectors.shape[1]:,} numbers in {out}")
        for number, line in enumerate(lines, start=1):
            say_split(number, line)
        return
    for number, line, vector in answered(file, lambda lines: list(loaded.embed(lines, pooling, layer)), names):
        print(json.dumps([float(str(number)) for number in vector]))  # no more digits than float32 has
        say_split(number, line)


def search(
    run: RunFolder,
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="texts to search in, one per line")],
    query: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY]...", help="default: one per line of standard input")
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="how many texts for each query", min=1)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per query")] = False,
    device: Device = None,
) -> None:
    """List the texts that are nearest to a query, by the cosine of their vectors: cosine, line number, text."""
    from regard.text.unicode import well_formed

    loaded = regard.load(run, device)
    loaded.check_can("search")
    texts = list(read_lines(corpus))
    queries = list(map(well_formed, query)) if query else list(read_lines(None))
    with working(f"reading {len(texts):,} texts"):
        results = loaded.search(queries, texts, n) if queries else ()
    for result in results:
        if as_json:
            near = [text._asdict() for text in result.nearest]
            print(json.dumps({"query": result.query, "nearest": near}, ensure_ascii=False))
            continue
        if len(queries) > 1:
            write_line(f"# {result.query}")
        for text in result.nearest:
            write_line(f"{text.cosine:.3f}\t{text.line}\t{text.text}")


def score(
    run: RunFolder,
    source: InputFile = None,
    target: Annotated[Path | None, typer.Argument(help="of a translator: translations, line by line")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="also the log-probability of every token")] = False,
    device: Device = None,
) -> None:
    """Score given texts: log P(line), or of a translator log P(target | source), in nats, one a line."""
    from regard.data.files.reading import read_parallel
    from regard.tasks.language.use import unknown_words

    loaded = regard.load(run, device)
    scored: Iterable[tuple[int, list[str], list[float]]]  # number, texts (the last is scored), log P of each token
    if source is not None and target is not None:
        if "score_texts" in loaded.verbs:
            raise ConfigError(f"{run} scores texts by themselves: give one file")
        notes = Notes()
        (sources, targets), numbers = read_parallel([source, target], notes)
        for row in notes.rows():
            print(row, file=sys.stderr)
        pairs = map(list, zip(sources, targets, strict=True))
        with working(f"scoring {len(sources):,} pairs"):
            scored = zip(numbers, pairs, loaded.score(sources, targets), strict=True)
    else:
        if "score" in loaded.verbs:
            raise ConfigError(f"{run} translates: give the sources and their translations, as two files")
        loaded.check_can("score_texts")
        scored = ((number, [line], log_probs) for number, line, log_probs in answered(source, loaded.score_texts))
    for number, texts, log_probs in scored:
        tokens = loaded.tokenizer.tokens(loaded.tokenizer.encode(texts[-1]))
        end = ["</s>"] if len(log_probs) > len(tokens) else []
        record = {"log_prob": sum(log_probs), "tokens": [*tokens, *end], "log_probs": log_probs}
        print(json.dumps(record, ensure_ascii=False) if as_json else f"{record['log_prob']:.4f}")
        unknown = [note for text in texts for note in unknown_words(text, loaded.tokenizer)]
        say_notes(number, ["empty source", *unknown] if len(texts) > 1 and not texts[0].strip() else unknown)
