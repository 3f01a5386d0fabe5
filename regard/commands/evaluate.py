"""regard evaluate: figures with their settings."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import ConfigError, RunError

if TYPE_CHECKING:
    from rich.table import Table

    from regard.data.files.reading import Examples
    from regard.decoding.config import DecodingConfig
    from regard.runs.run import Run


def evaluate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN [RUN] [SOURCE REFERENCE]", help="one run, or two to compare; then test files"),
    ],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a decoding setting, such as beam=4")
    ] = None,
    root: Annotated[str | None, typer.Option(help="folder of the data (default: the recipe's data.root)")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for machines")] = False,
    outputs: Annotated[
        Path | None,
        typer.Option(help="also write the translations, or the labels, here; of two runs, each to OUTPUTS.NAME"),
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="of a classifier: also draw its confusion matrix, PNG")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """The figures of a run on its test set, or on given files; two runs side by side."""
    from dataclasses import asdict

    from rich.console import Console

    from regard.commands.classify import print_classification
    from regard.commands.text import decoding_settings, say_rows
    from regard.commands.versus import CHATS, print_versus
    from regard.evaluation.translation import paired
    from regard.runs.run import PAIRS, load

    for path in paths:
        if not path.exists():
            raise RunError(f"there is no {path}, neither a run folder nor a file")
    runs = [path for path in paths if not path.is_file()]
    files = [path for path in paths if path.is_file()]
    loaded = [load(folder, device) for folder in runs]
    if len(runs) == 1 and loaded[0].recipe.kind in ("classification", "label-words"):
        return print_classification(loaded[0], files, root, as_json, outputs, picture)
    if picture is not None:
        raise ConfigError("--picture draws the confusion matrix of one run of classification")
    are_chats = len(runs) == 2 and all(run.recipe.kind in CHATS for run in loaded)
    if (set_ or outputs is not None) and (are_chats or (len(runs) == 1 and loaded[0].recipe.kind not in PAIRS)):
        raise ConfigError(f"--set and --outputs are for translations; {runs[0]} writes none when it is evaluated")
    if len(runs) == 1 and loaded[0].recipe.kind not in PAIRS:
        return print_measures(loaded[0], files, root, as_json)
    if are_chats:
        return print_versus(loaded[0], loaded[1], files, root, as_json)
    if len(runs) not in (1, 2) or len(files) not in (0, 2):
        raise ConfigError(f"evaluate takes one or two runs and no or two files, got {len(runs)} and {len(files)}")
    for run in loaded:
        run.expect(*PAIRS)
    if outputs is not None and len(runs) == 2 and runs[0].name == runs[1].name:
        raise ConfigError(
            f"--outputs {outputs} would write the translations of {runs[0]} and {runs[1]}, which have one name, to one "
            f"file, {outputs.name}.{runs[0].name}; evaluate one run at a time, or rename a folder"
        )
    sets = [test_set(run, files, root) for run in loaded]
    if sets[0].columns != sets[-1].columns:
        raise ConfigError(
            f"{runs[0]} and {runs[1]} have different test sets, so nothing was compared; name one for both: "
            f"regard evaluate {runs[0]} {runs[1]} SOURCE REFERENCE"
        )
    sources, references = sets[0].columns
    say_rows(sets[0].notes)
    reports, answers = [], []
    for folder, run in zip(runs, loaded, strict=True):
        config = decoding_settings(run, set_ or [])
        report, texts = measure(run, sources, references, config)
        reports.append(report)
        answers.append(texts)
        if outputs is not None:
            path = outputs if len(runs) == 1 else outputs.with_name(f"{outputs.name}.{folder.name}")
            path.write_text("".join(text.replace("\n", " ") + "\n" for text in texts), encoding="utf-8")
    comparisons = [asdict(c) for c in paired(answers[0], answers[1], references)] if len(runs) == 2 else []
    if as_json:
        print(json.dumps({"runs": reports, "paired": comparisons}, ensure_ascii=False, indent=2))
        return
    console = Console()
    for report in reports:
        console.print(figures(report))
        for metric in report["metrics"]:
            print(f"{metric['name']}: {metric['signature']}")
    if comparisons:
        console.print(comparison_table(comparisons, [folder.name for folder in runs]))


def print_measures(run: "Run", files: list[Path], root: str | None, as_json: bool) -> None:
    """The figures of every other task."""
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    what, metrics = run.measure(files, root)
    if as_json:
        figures = [asdict(metric) for metric in metrics]
        print(json.dumps({"run": str(run.folder), "weights": run.weights, "of": what, "metrics": figures}, indent=2))
        return
    table = Table("what", "value", "95 % interval", title=Text(f"{run.folder} ({run.weights}): {what}"))
    for metric in metrics:
        between = "" if metric.interval is None else f"{metric.interval[0]:.4g} to {metric.interval[1]:.4g}"
        table.add_row(metric.name, f"{metric.value:.4g}", between)
    Console().print(table)
    print(metrics[0].signature)


def test_set(run: "Run", files: list[Path], root: str | None) -> "Examples":
    """Sources and references: the given files, or the test files of the recipe."""
    from regard.data.files.reading import read_examples

    data = run.recipe.data
    if files:
        examples = read_examples(tuple(map(str, files)), (), ".")
    elif data.test:
        examples = read_examples(data.test, data.columns, root or data.root)
    else:
        raise ConfigError(f"{run.folder} names no test files; give them: regard evaluate {run.folder} SOURCE REFERENCE")
    if len(examples.columns) != 2:
        raise ConfigError(f"a test needs source and reference, got {len(examples.columns)} columns")
    return examples


def measure(
    run: "Run", sources: list[str], references: list[str], config: "DecodingConfig"
) -> tuple[dict[str, Any], list[str]]:
    """What was measured, as plain values, and the translations."""
    from dataclasses import asdict

    from regard.evaluation.rouge import rouge
    from regard.evaluation.translation import bleu, chrf, exact_match

    begin = time.perf_counter()
    translated = run.translate(sources, config)
    seconds = time.perf_counter() - begin
    texts = [answer.text for answer in translated]
    n_tokens = sum(len(hypothesis.tokens) + 1 for answer in translated for _, hypothesis in answer.parts)
    notes: dict[str, int] = {}
    for answer in translated:
        for note in answer.notes:
            kind = note.split(":")[0].split(" in")[0]  # "split into 3" and "into 4" are counted together
            notes[kind] = notes.get(kind, 0) + 1
    metrics = [
        bleu(texts, references),
        bleu(texts, references, lowercase=True),
        chrf(texts, references),
        exact_match(texts, references),
    ]
    if run.recipe.task.measured == "rouge":
        metrics = [*rouge(texts, references), *metrics]
    report = {
        "run": str(run.folder),
        "weights": run.weights,
        "lines": len(texts),
        "metrics": [asdict(metric) for metric in metrics],
        "decoding": asdict(config),
        "target_tokens_per_second": round(n_tokens / seconds, 1),
        "lines_per_second": round(len(texts) / seconds, 1),
        "seconds": round(seconds, 2),
        "notes": notes,
    }
    return report, texts


def figures(report: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "value", "95 % interval", title=Text(f"{report['run']} ({report['weights']})"))
    for metric in report["metrics"]:
        interval = metric["interval"]
        between = "" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"
        table.add_row(metric["name"], f"{metric['value']:.2f}", between)
    decoding = report["decoding"]
    way = f"beam {decoding['beam']}, length penalty {decoding['length_penalty']}"
    table.add_row("decoding", "sampling" if decoding["sample"] else way)
    table.add_row("speed", f"{report['target_tokens_per_second']:,} tokens/s, {report['lines_per_second']:,} lines/s")
    table.add_row("lines", f"{report['lines']:,}")
    for note, n in report["notes"].items():
        table.add_row(f"lines: {note}", f"{n:,}")
    return table


def comparison_table(comparisons: list[dict[str, Any]], names: list[str]) -> "Table":
    from rich.table import Table

    table = Table("metric", *names, "p", title="Paired bootstrap test: p is the chance of such a difference by luck")
    for row in comparisons:
        table.add_row(row["name"], f"{row['value_a']:.2f}", f"{row['value_b']:.2f}", f"{row['p']:.3f}")
    return table
