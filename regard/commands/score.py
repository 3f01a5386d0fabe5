"""regard score: how likely given texts, or given translations, are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import Device, InputFile, RunFolder, say_rows
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run import Run


def score(
    run: RunFolder,
    source: InputFile = None,
    target: Annotated[Path | None, typer.Argument(help="of a translator: translations, line by line")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="also the log-probability of every token")] = False,
    device: Device = None,
) -> None:
    """Score given texts: log P(line), or of a translator log P(target | source), in nats, one a line."""
    from regard.runs.run import load

    loaded = load(run, device)
    if source is not None and target is not None:
        if "score_texts" in loaded.verbs:
            raise ConfigError(f"{run} scores texts by themselves: give one file")
        return score_pairs(loaded, source, target, as_json)
    if "score" in loaded.verbs:
        raise ConfigError(f"{run} translates: give the sources and their translations, as two files")
    loaded.check_can("score_texts")
    score_lines(loaded, source, as_json)


def score_pairs(run: "Run", source: Path, target: Path, as_json: bool) -> None:
    from regard.commands.lines import say_notes
    from regard.data.files.reading import read_parallel
    from regard.data.notes import Notes
    from regard.tasks.language.use import unknown_words

    notes = Notes()
    (sources, targets), _ = read_parallel([source, target], notes)
    say_rows(notes)
    scored = zip(sources, targets, run.score(sources, targets), strict=True)
    for number, (read, written, log_probs) in enumerate(scored, start=1):
        print_score([*run.tokenizer.tokens(run.tokenizer.encode(written)), "</s>"], log_probs, as_json)
        unknown = unknown_words(read, run.tokenizer) + unknown_words(written, run.tokenizer)
        say_notes(number, unknown if read.strip() else ["empty source", *unknown])


def score_lines(run: "Run", file: Path | None, as_json: bool) -> None:
    from regard.commands.lines import answered, say_notes
    from regard.tasks.language.use import unknown_words

    for number, line, log_probs in answered(file, run.score_texts):
        tokens = run.tokenizer.tokens(run.tokenizer.encode(line))
        end = ["</s>"] if len(log_probs) > len(tokens) else []
        print_score([*tokens, *end], log_probs, as_json)
        say_notes(number, unknown_words(line, run.tokenizer))


def print_score(tokens: list[str], log_probs: list[float], as_json: bool) -> None:
    total = sum(log_probs)
    record = {"log_prob": total, "tokens": tokens, "log_probs": log_probs}
    print(json.dumps(record, ensure_ascii=False) if as_json else f"{total:.4f}")
