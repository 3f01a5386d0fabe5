"""regard translate and regard score: text through a trained run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.data.notes import Notes
    from regard.decoding.config import DecodingConfig
    from regard.runs.run import Run
    from regard.tasks.translation.use import Translated

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="a run folder")]
InputFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="one sentence a line (default: standard input)")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N (default: a GPU if there is one)")]


def translate(
    run: RunFolder,
    file: InputFile = None,
    with_: Annotated[list[Path] | None, typer.Option("--with", metavar="RUN", help="decode as an ensemble")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as beam=4, sample=true, top_p=0.9"),
    ] = None,
    prefix: Annotated[str, typer.Option(help="text with which every translation must begin")] = "",
    alignments: Annotated[bool, typer.Option("--alignments", help="word alignments (Pharaoh) instead of text")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: text, scores, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Translate lines: N lines in, N lines out."""
    from regard.commands.lines import answered, say_notes, write_line
    from regard.decoding.alignment import pharaoh
    from regard.runs.run import load

    loaded = load(run, device)
    if with_:
        loaded = loaded.join([load(other, device) for other in with_])
    config = decoding_settings(loaded, set_ or [])
    if config.n_best > 1 and not as_json:
        print(f"n_best = {config.n_best}: the best of each line is shown; --json shows the others too", file=sys.stderr)

    def answer(lines: list[str]) -> list["Translated"]:
        return loaded.translate(lines, config, [prefix] * len(lines) if prefix else None)

    for number, line, best in answered(file, answer):
        if as_json:
            record = {
                "line": number,
                "source": line,
                "translation": best.text,
                "score": best.score,
                "log_prob": best.log_prob,
                "notes": best.notes,
            }
            if best.n_best:
                record["n_best"] = [{"text": text, "score": score} for text, score in best.n_best]
            if alignments:
                record["alignment"] = pharaoh(loaded.alignments(best))
            write_line(json.dumps(record, ensure_ascii=False))
        else:
            write_line(pharaoh(loaded.alignments(best)) if alignments else best.text)
            say_notes(number, [note for note in best.notes if note != "empty"])


def decoding_settings(run: "Run", overrides: list[str]) -> "DecodingConfig":
    """The recipe's [decoding] with NAME=VALUE changes."""
    from regard import config
    from regard.decoding.config import SAMPLERS, DecodingConfig
    from regard.errors import ConfigError

    changes = {}
    for override in overrides:
        name, equals, value = override.removeprefix("decoding.").partition("=")
        if not equals:
            raise ConfigError(f"--set needs name=value, got {override!r}")
        changes[name] = config.parse(value)
    found = config.build(DecodingConfig, config.as_settings(run.recipe.decoding) | changes, "decoding")
    for name in SAMPLERS:
        if name in changes and not found.sample:
            raise ConfigError(f"{name} is for sampling, and nothing is drawn here: add --set sample=true")
    return found


def score(
    run: RunFolder,
    source: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="one text a line (default: standard input)")
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="[TARGET]", help="of a translator: the given translations, line by line")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="also the log-probability of every token")] = False,
    device: Device = None,
) -> None:
    """Score given texts: log P(line), or of a translator log P(target | source), in nats, one a line."""
    from regard.errors import ConfigError
    from regard.runs.run import PAIRS, load

    if source is not None and target is not None:
        return score_pairs(run, source, target, as_json, device)
    loaded = load(run, device)
    if loaded.recipe.kind in PAIRS:
        raise ConfigError(f"{run} translates: give the sources and their translations, as two files")
    loaded.expect("language")
    score_lines(loaded, source, as_json)


def score_pairs(run: Path, source: Path, target: Path, as_json: bool, device: str | None) -> None:
    from regard.commands.lines import say_notes
    from regard.data.files.reading import read_parallel
    from regard.data.notes import Notes
    from regard.runs.run import load
    from regard.tasks.language.use import unknown_words

    notes = Notes()
    (sources, targets), _ = read_parallel([source, target], notes)
    say_rows(notes)
    loaded = load(run, device)
    found = zip(sources, targets, loaded.score(sources, targets), strict=True)
    for number, (read, said, log_probs) in enumerate(found, start=1):
        tokens = [*loaded.tokenizer.tokens(loaded.tokenizer.encode(said)), "</s>"]
        print_score(tokens, log_probs, as_json)
        unknown = unknown_words(read, loaded.tokenizer) + unknown_words(said, loaded.tokenizer)
        say_notes(number, unknown if read.strip() else ["empty source", *unknown])


def say_rows(notes: "Notes") -> None:
    """What was noted about files, to standard error."""
    for row in notes.rows():
        print(row, file=sys.stderr)


def score_lines(loaded: "Run", file: Path | None, as_json: bool) -> None:
    from regard.commands.lines import answered, say_notes
    from regard.tasks.language.use import unknown_words

    end = [] if loaded.recipe.task.unit == "text" else ["</s>"]
    for number, line, log_probs in answered(file, loaded.score_texts):
        tokens = [*loaded.tokenizer.tokens(loaded.tokenizer.encode(line)), *end]
        print_score(tokens, log_probs, as_json)
        say_notes(number, unknown_words(line, loaded.tokenizer))


def print_score(tokens: list[str], log_probs: list[float], as_json: bool) -> None:
    total = sum(log_probs)
    record = {"log_prob": total, "tokens": tokens, "log_probs": log_probs}
    print(json.dumps(record, ensure_ascii=False) if as_json else f"{total:.4f}")
