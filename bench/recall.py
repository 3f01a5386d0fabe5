"""python -m bench.recall RUN: how often a run answers what was said far back, by the size of its memory.

The run is one of the recipe `recall`.  Its weights do not depend on the memory, so that one training serves them all.
"""

import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from bench.timing import say
from regard.data.corpora import recall
from regard.errors import RegardError
from regard.runs.run import Run, load

MEMORIES = (64, 512, 4096, 32_768)  # tokens


@dataclass(frozen=True)
class Answers:
    length: int  # characters of a line
    memory: int  # tokens that are kept
    n: int
    n_right: int


def ask(run: Run, length: int, memory: int, n: int) -> Answers:
    reader = run.model.reader
    reader.config = replace(reader.config, memory=memory)
    n_right = 0
    for number, text in enumerate(recall.far_lines(length, n), start=1):
        say(f"a line of {length:,} with a memory of {memory:,}: {number} of {n}")
        asked, value = recall.question(text)
        n_right += run.generate([asked], length=1)[0][0].text == value
    return Answers(length, memory, n, n_right)


def ask_all(run: Run, lengths: list[int], n: int, n_whole: int) -> list[Answers]:
    """With all memories up to the one that holds the whole line, for which `n_whole` lines must do."""
    pairs = [(length, memory) for length in lengths for memory in (*MEMORIES, length) if memory <= length]
    pairs = list(dict.fromkeys(pairs))
    return [ask(run, length, memory, n_whole if memory == length else n) for length, memory in pairs]


def draw(answers: list[Answers], path: Path) -> None:
    from regard.viewer import style  # matplotlib takes a second to import

    figure = style.blank(6.4, 3.8)
    axes = figure.add_subplot()
    for (length, mark), color in zip(
        zip(dict.fromkeys(row.length for row in answers), "osD^vP", strict=False), style.LINES, strict=False
    ):
        line = [(row.memory, 100 * row.n_right / row.n) for row in answers if row.length == length]
        axes.plot(*zip(*line, strict=True), color=color, marker=mark, label=f"lines of {length:,}")
        axes.axvline(length, color=color, linewidth=1, linestyle=":")
    memories = sorted({row.memory for row in answers})
    axes.set_xscale("log", base=2)
    axes.set_xticks(memories, [f"{memory:,}" for memory in memories])
    axes.axhline(100 / len(recall.VALUES), color=style.SOFT, linewidth=1, linestyle="--", label="by chance")
    axes.set_ylim(-4, 104)
    axes.set_xlabel("tokens in memory (dotted: as long as the line)", color=style.SOFT)
    axes.set_title("% of first questions answered", fontsize=11, color=style.INK, loc="left")
    axes.legend(frameon=False, fontsize=9)
    axes.grid(color=style.RULE, linewidth=0.6)
    style.plain(axes)
    figure.savefig(path, format="png")


def main(
    folder: Annotated[str, typer.Argument(metavar="RUN", help="a run of the recipe `recall`")],
    lengths: Annotated[list[int] | None, typer.Option("--length", help="characters of a line; may be repeated")] = None,
    n: Annotated[int, typer.Option("--lines", min=1, help="asked for each memory that is too small")] = 20,
    n_whole: Annotated[int, typer.Option("--whole-lines", min=1, help="asked with a memory as long as the line")] = 20,
    picture: Annotated[Path | None, typer.Option(help="draw the answers into this PNG")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="also write the figures to this file")] = None,
) -> None:
    """Ask for keys that were given their values thousands of characters before."""
    try:
        answers = ask_all(load(folder), lengths or list(recall.FAR), n, n_whole)
    except RegardError as error:
        raise typer.BadParameter(str(error)) from None
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("characters of a line", "memory", "answered correctly"):
        table.add_column(heading, justify="right")
    for row in answers:
        table.add_row(f"{row.length:,}", f"{row.memory:,}", f"{row.n_right} of {row.n}")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    if json_file:
        json_file.write_text(json.dumps([asdict(row) for row in answers], indent=2) + "\n", encoding="utf-8")
    if picture:
        draw(answers, picture)


if __name__ == "__main__":
    typer.run(main)
