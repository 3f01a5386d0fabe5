"""Where the rungs of a ladder stand: a table for the terminal and one for documents, ladder.json and pictures."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from regard.ladder.rungs import Ladder
from regard.runs.durable import write_file
from regard.viewer.charts import Panel, bars, losses
from regard.viewer.style import LIGHT, Style

OTHER_ORDER = "After another number of steps, the order of the rungs can be another."


@dataclass(frozen=True, kw_only=True)
class RungRow:
    """What is known of one rung."""

    rung: str
    title: str
    run: str  # its folder
    of: str  # what it was measured on
    figures: dict[str, float]
    parameters: int  # trained by gradients
    counts: int  # of a model that counts
    steps: int
    tokens: int  # trained on, each as often as it was read
    seconds: float
    ended: str  # why its training ended
    curve: list[tuple[int, float]]  # tokens trained on, and the validation loss after them

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def keep(rows: list[RungRow], ladder: Ladder, folder: Path, budget: str, device: str, style: Style = LIGHT) -> None:
    """ladder.json, ladder.md, ladder.png and, of the rungs that are trained by steps, ladder-curves.png."""
    rungs = [{**asdict(row), "tokens_per_second": row.tokens_per_second} for row in rows]
    report = {"budget": budget, "device": device, "rungs": rungs}
    write_file(folder / "ladder.json", json.dumps(report, indent=2, ensure_ascii=False).encode())
    write_file(folder / "ladder.md", as_markdown(rows, ladder, budget, device).encode())
    name, title = next(iter(ladder.figures.items()))
    rows = sorted(rows, key=lambda row: row.figures[name], reverse=ladder.higher_is_better)
    panels = [Panel(title, [row.figures[name] for row in rows]) for name, title in ladder.figures.items()]
    panels += [
        Panel("seconds", [row.seconds for row in rows], logarithmic=True),
        Panel("weights or counts", [float(row.parameters or row.counts) for row in rows], logarithmic=True),
        Panel("tokens per second", [row.tokens_per_second for row in rows], logarithmic=True),
    ]
    order = list(ladder.rungs)  # not that of the figures, which differs from one ladder to the next
    places = {row.title: order.index(row.rung) for row in rows}
    curves = {row.title: row.curve for row in rows if row.curve}
    if curves:
        losses(curves, folder / "ladder-curves.png", style, [places[title] for title in curves])
    heading = f"The ladder, {budget}, on {rows[0].of}"
    caption = f"Sorted by {title}, the best at the top; a rung has one color in all pictures. {OTHER_ORDER}"
    bars(list(places), panels, heading, folder / "ladder.png", list(places.values()), caption, style)


def as_markdown(rows: list[RungRow], ladder: Ladder, budget: str, device: str) -> str:
    """The table for a document: tokens and minutes stand beside every figure."""
    heads = ("rung", *ladder.figures.values(), "tokens", "minutes", "weights or counts", "ended")
    lines = [f"The ladder, {budget}, measured on {rows[0].of}, on {device}.", "", "| " + " | ".join(heads) + " |"]
    lines.append("|---" * len(heads) + "|")
    for row in rows:
        figures = [f"{row.figures[name]:.4g}" for name in ladder.figures]
        spent = (f"{row.tokens:,}", f"{row.seconds / 60:.2f}", f"{row.parameters or row.counts:,}")
        lines.append("| " + " | ".join((row.title, *figures, *spent, row.ended)) + " |")
    return "\n".join(lines) + "\n"


def compare(rows: list[RungRow], ladder: Ladder, budget: str) -> Table:
    title = Text(f"The ladder, {budget}, measured on {rows[0].of}")
    notes = ["* counts"] if any(row.counts for row in rows) else []
    if len(rows) > 1 and any(row.steps for row in rows):
        notes.append(f"Trained {budget}: after another number of steps, the order of the rungs can be another.")
    table = Table(title=title, caption="\n".join(notes) or None, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rung", no_wrap=True)
    for head in (*ladder.figures.values(), "seconds", "tokens", "tokens/s", "weights"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        size = f"{row.counts:,}*" if row.counts else f"{row.parameters:,}"
        figures = [f"{row.figures[name]:.4g}" for name in ladder.figures]
        seconds = f"{row.seconds:,.1f}"
        table.add_row(row.title, *figures, seconds, f"{row.tokens:,}", f"{row.tokens_per_second:,.0f}", size)
    return table
