"""regard answer, regard embed, regard score: lines that are asked about together with more than a run."""

import json
import os
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

import regard
from regard.commands.lines import answered, read_lines, say_notes, write_line
from regard.commands.options import AsJson, Device, InputFile, RunFolder
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError
from regard.tasks.answering.verbs import Answered, AnswerQuestions


def answer(
    run: RunFolder,
    question: Annotated[str | None, typer.Argument(help="default: lines of standard input")] = None,
    context: Annotated[str | None, typer.Option(metavar="FILE|TEXT", help="the text that is asked about")] = None,
    always: Annotated[
        bool, typer.Option("--always", help="give the best answer even if no answer is likelier")
    ] = False,
    as_json: AsJson = False,
    device: Device = None,
) -> None:
    """Answer questions with words of a text: N lines in, N lines out, empty where the text does not say.

    Without --context, each line of input is {"question": ..., "context": ...}.
    """
    from regard.data.files import reading

    if question is not None and context is None:
        raise ConfigError("a question needs a text: --context FILE or --context TEXT")
    if context is not None and (os.path.isfile(context) or len(context.split()) < 2):  # a single word is a file's name
        context = "\n".join(reading.read_lines(context))
    loaded = regard.load(run, device)
    loaded.check_can(AnswerQuestions.name)
    numbers = count(1)

    def reply(lines: list[str]) -> list[tuple[str, Answered]]:
        """The question of each line, and its answer."""
        pairs = [read_pair(line, next(numbers)) if context is None else (line, context) for line in lines]
        questions, contexts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return list(zip(questions, loaded.answer(questions, contexts, always), strict=True))

    form = AnswerQuestions([], [])
    for number, _, (text, best) in answered(None, reply, None if question is None else [question]):
        if as_json:
            write_line(json.dumps(form.record(number, text, best), ensure_ascii=False))
            continue
        write_line(form.line(best))
        say_notes(number, best.notes if best.place else [*best.notes, "the text does not say"])


def read_pair(line: str, number: int) -> tuple[str, str]:
    """Question and context of a line of JSON."""
    from regard.data.files.records import as_text

    where = f"standard input:{number}"
    try:
        record = json.loads(line)
        question, context = record["question"], record["context"]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise DataError(
            f'{where}: each line of input must be {{"question": ..., "context": ...}}, '
            f"got {line[:60]!r}; or give the text once, --context FILE, and a question a line"
        ) from None
    return as_text(question, where, "question"), as_text(context, where, "context")


def embed(
    run: RunFolder,
    file: InputFile = None,
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

    def say_split(number: int, line: str) -> None:
        n_parts = len(read_in_pieces(line, loaded.task.encode, loaded.model.max_length))
        say_notes(number, [f"split into {n_parts}, the mean of which is given"] if n_parts > 1 else [])

    if out is not None:
        lines = list(read_lines(file))
        vectors = loaded.embed(lines, pooling, layer)
        np.save(out, vectors)
        print(f"{len(vectors):,} vectors of {vectors.shape[1]:,} numbers in {out}")
        for number, line in enumerate(lines, start=1):
            say_split(number, line)
        return
    for number, line, vector in answered(file, lambda lines: list(loaded.embed(lines, pooling, layer))):
        print(json.dumps([float(str(number)) for number in vector]))  # no more digits than float32 has
        say_split(number, line)


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
