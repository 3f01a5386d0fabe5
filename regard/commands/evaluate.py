"""regard evaluate: figures with their settings."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="one run, or two to compare")],
    files: Annotated[
        list[Path] | None,
        typer.Option("--files", help="source, then reference (default: the recipe's test files); give it twice"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as beam=4")
    ] = None,
    root: Annotated[str | None, typer.Option(help="folder of the data (default: the recipe's data.root)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for machines")] = False,
    outputs: Annotated[Path | None, typer.Option(help="also write the translations here")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """Translate a test set and report BLEU and chrF with signatures; two runs: also the paired test."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from regard.commands.text import decoding_settings
    from regard.data.reading import read_examples
    from regard.errors import ConfigError
    from regard.evaluation.translation import paired
    from regard.run import load

    if len(runs) > 2:
        raise ConfigError(f"evaluate takes one run, or two to compare; got {len(runs)}")
    reports, answers = [], []
    references: list[str] = []
    for folder in runs:
        loaded = load(folder, device)
        data = loaded.recipe.data
        if files:
            examples = read_examples(tuple(map(str, files)), (), ".")
        elif data.test:
            examples = read_examples(data.test, data.columns, root or data.root)
        else:
            raise ConfigError(
                f"the recipe of {folder} names no test files; give them: --files SOURCE --files REFERENCE"
            )
        if len(examples.columns) != 2:
            raise ConfigError(f"a test needs source and reference, got {len(examples.columns)} columns")
        config = decoding_settings(loaded, set_ or [])
        sources, references = examples.columns
        begin = time.perf_counter()
        translated = loaded.translate(sources, config)
        seconds = time.perf_counter() - begin
        texts = [answer.text for answer in translated]
        n_tokens = sum(len(h.tokens) + 1 for answer in translated for _, h in answer.parts)
        reports.append(report(folder, loaded, texts, references, config, n_tokens, seconds, translated))
        answers.append(texts)
        if outputs is not None:
            path = outputs if len(runs) == 1 else outputs.with_name(f"{outputs.name}.{folder.name}")
            path.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8")
    comparisons = paired(answers[0], answers[1], references) if len(runs) == 2 else []
    if as_json:
        whole = {"runs": reports, "paired": [asdict(comparison) for comparison in comparisons]}
        print(json.dumps(whole, ensure_ascii=False, indent=2))
        return
    console = Console()
    for row in reports:
        console.print(table_of(row))
    if comparisons:
        table = Table("metric", runs[0].name, runs[1].name, "p", title="Paired bootstrap test")
        for c in comparisons:
            table.add_row(c.name, f"{c.value_a:.2f}", f"{c.value_b:.2f}", f"{c.p:.3f}")
        console.print(table)


def report(folder, loaded, texts, references, config, n_tokens, seconds, translated):  # type: ignore[no-untyped-def]
    """What was measured, as plain values."""
    from dataclasses import asdict

    from regard.evaluation.translation import bleu, chrf, exact_match

    notes: dict[str, int] = {}
    for answer in translated:
        for note in answer.notes:
            kind = note.split(" into ")[0].split(" in ")[0]
            notes[kind] = notes.get(kind, 0) + 1
    metrics = [
        bleu(texts, references),
        bleu(texts, references, lowercase=True),
        chrf(texts, references),
        exact_match(texts, references),
    ]
    return {
        "run": str(folder),
        "weights": loaded.weights,
        "lines": len(texts),
        "metrics": [asdict(metric) for metric in metrics],
        "decoding": asdict(config),
        "target_tokens_per_second": round(n_tokens / seconds, 1),
        "lines_per_second": round(len(texts) / seconds, 1),
        "seconds": round(seconds, 2),
        "notes": notes,
    }


def table_of(row):  # type: ignore[no-untyped-def]
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(f"{row['run']}: {row['lines']:,} lines, {row['weights']}"), show_header=True)
    for head in ("metric", "value", "95 % interval", "signature"):
        table.add_column(head)
    for metric in row["metrics"]:
        interval = metric.get("interval")
        between = "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"
        table.add_row(metric["name"], f"{metric['value']:.2f}", between, Text(metric["signature"]))
    decoding = row["decoding"]
    way = f"beam {decoding['beam']}, length penalty {decoding['length_penalty']}"
    table.add_row("decoding", Text("sampling" if decoding["sample"] else way))
    table.add_row("speed", f"{row['target_tokens_per_second']:,} tok/s", "", f"{row['lines_per_second']:,} lines/s")
    for note, n in row["notes"].items():
        table.add_row(note, f"{n:,} lines")
    return table
