"""python -m bench.recovers WRITER CLASSIFIER: how often a classifier finds the label that a text was written from."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from regard.errors import RegardError
from regard.evaluation.measured import wilson
from regard.runs.run import load


def main(
    writer: Annotated[Path, typer.Argument(help="a run that writes from a label")],
    classifier: Annotated[Path, typer.Argument(help="a classifier, trained separately")],
    n: Annotated[int, typer.Option("--n", min=1, help="texts written for each label")] = 200,
    length: Annotated[int, typer.Option(min=1, help="the most tokens of a text")] = 60,
    temperature: Annotated[float | None, typer.Option(help="of sampling (default: the writer's recipe)")] = None,
    seed: Annotated[int, typer.Option(help="of sampling")] = 0,
    shown: Annotated[int, typer.Option(help="texts shown of each label")] = 3,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N")] = None,
) -> None:
    """Write n texts for each label, classify them, and print the share recovered."""
    try:
        author, judge = load(writer, device), load(classifier, device)
        author.check_can("generate_as")
        judge.check_can("classify")
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None
    decoding = author.recipe.decoding
    decoding = replace(
        decoding, sample=True, beam=1, n_best=n, seed=seed, temperature=temperature or decoding.temperature
    )
    console = Console()
    table = Table("label", "texts", "different", "recovered", "95 % interval", "taken for")
    n_right = n_all = 0
    for label in author.recipe.task.labels:
        texts = [written.text for written in author.generate_as(label, [""], length, decoding)[0]]
        labels = Counter(answer.label for answer in judge.classify(texts))
        n_right, n_all = n_right + labels[label], n_all + n
        others = ", ".join(f"{other} {count}" for other, count in labels.most_common() if other != label)
        table.add_row(label, f"{n}", f"{len(set(texts))}", *share(labels[label], n), others)
        for text in texts[:: -(-n // shown)] if shown else []:  # the most probable come first, and are short
            console.print(f"{label}: {text}", markup=False)
    table.add_row("all", f"{n_all}", "", *share(n_right, n_all), "")
    console.print(table)
    console.print(f"sampling at temperature {decoding.temperature}, seed {seed}, at most {length} tokens")


def share(n_right: int, n: int) -> tuple[str, str]:
    low, high = wilson(n_right, n)
    return f"{100 * n_right / n:.1f} %", f"{low:.1f} to {high:.1f}"


if __name__ == "__main__":
    typer.run(main)
