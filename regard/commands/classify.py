"""regard classify: a label for each line; and what regard evaluate says of a classifier."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.text import Device, InputFile, RunFolder

if TYPE_CHECKING:
    from rich.table import Table

    from regard.runs.run import Run


def classify(
    run: RunFolder,
    file: InputFile = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="behind the label, the probability of every label")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="one JSON object a line: label, probabilities, what happened")
    ] = False,
    device: Device = None,
) -> None:
    """Tell the label of each line: N lines in, N lines out."""
    from regard.commands.lines import answered, say_notes, write_line
    from regard.runs.run import load

    loaded = load(run, device)
    for number, line, answer in answered(file, loaded.classify):
        if as_json:
            record = {"line": number, "text": line, "label": answer.label, "probabilities": answer.probabilities}
            write_line(json.dumps({**record, "notes": answer.notes}, ensure_ascii=False))
            continue
        shares = [f"{label}={share:.4f}" for label, share in answer.probabilities.items()] if probabilities else []
        write_line("\t".join([answer.label, *shares]))
        say_notes(number, answer.notes)


def print_classification(
    run: "Run", files: list[Path], root: str | None, as_json: bool, outputs: Path | None, picture: Path | None
) -> None:
    """Accuracy, F1 of every label, the confusion matrix."""
    from dataclasses import asdict, replace

    from rich.console import Console
    from rich.text import Text

    from regard.evaluation.classification import classification, confusion_picture, confusion_rows, table_rows
    from regard.tasks.classification.use import test_set

    task, data = run.recipe.task, run.recipe.data
    what, test = test_set(data if root is None else replace(data, root=root), task.labels, tuple(map(str, files)))
    answers = run.classify(test.texts)
    name_of = dict(zip(task.labels, task.shown_labels, strict=True))
    labels = [answer.label for answer in answers]
    result = classification(labels, [name_of[label] for label in test.labels], task.shown_labels)
    notes: dict[str, int] = {}
    for answer in answers:
        for note in answer.notes:
            kind = note.split(" of ")[0]  # "cut to the first 400 of 512 tokens": counted together
            notes[kind] = notes.get(kind, 0) + 1
    if outputs is not None:
        outputs.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    if picture is not None:
        confusion_picture(result, picture)
    if as_json:
        record = {"run": str(run.folder), "weights": run.weights, "of": what, **asdict(result), "notes": notes}
        print(json.dumps(record, ensure_ascii=False, indent=2))
        return
    console = Console()
    low, high = result.accuracy.interval or (0.0, 100.0)
    console.print(Text(f"{run.folder} ({run.weights}): {what}", style="bold"))
    console.print(f"accuracy {result.accuracy.value:.2f} % (95 % interval {low:.2f} to {high:.2f})")
    console.print(f"who always says the commonest label: {result.majority:.2f} %")
    for rows in (table_rows(result), confusion_rows(result)):
        console.print(as_table(rows))
    for note, n in notes.items():
        console.print(f"texts {note}: {n:,}")
    print(result.accuracy.signature)


def as_table(rows: list[tuple[str, ...]]) -> "Table":
    """Headings, then a row each; numbers stand right."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, heading in enumerate(rows[0]):
        table.add_column(Text(heading), justify="right" if i else "left")
    for row in rows[1:]:
        table.add_row(*(Text(cell) for cell in row))
    return table
