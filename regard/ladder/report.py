"""The rungs side by side: a table for the terminal, ladder.json and ladder.png; and the one budget of a folder."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from regard.errors import RunError
from regard.ladder.climb import RungRow
from regard.ladder.rungs import Ladder
from regard.runs.durable import write_file
from regard.viewer.charts import Panel, bars


def check_budget(folder: Path, budget: str) -> None:
    """Rungs of one ladder have one budget; it is written down before the first of them begins."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "budget.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else budget
    if before != budget:
        raise RunError(
            f"{folder} is a ladder of {before}, now it is {budget}; nothing was changed. "
            "Use the same budget, or choose another folder with --out"
        )
    write_file(path, json.dumps(budget).encode())


def keep(rows: list[RungRow], ladder: Ladder, folder: Path, budget: str, device: str) -> None:
    """ladder.json and ladder.png."""
    rungs = [{**asdict(row), "tokens_per_second": row.tokens_per_second} for row in rows]
    report = {"budget": budget, "device": device, "rungs": rungs}
    write_file(folder / "ladder.json", json.dumps(report, indent=2, ensure_ascii=False).encode())
    panels = [Panel(title, [row.figures[name] for row in rows]) for name, title in ladder.figures.items()]
    panels += [
        Panel("seconds", [row.seconds for row in rows], logarithmic=True),
        Panel("weights or counts", [float(row.parameters or row.counts) for row in rows], logarithmic=True),
        Panel("tokens per second", [row.tokens_per_second for row in rows], logarithmic=True),
    ]
    bars([row.title for row in rows], panels, f"The ladder, {budget}, on {rows[0].of}", folder / "ladder.png")


def compare(rows: list[RungRow], ladder: Ladder, budget: str) -> Table:
    title = Text(f"The ladder, {budget}, measured on {rows[0].of}")
    caption = "* counts" if any(row.counts for row in rows) else None
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rung", no_wrap=True)
    for head in (*ladder.figures.values(), "seconds", "tokens", "tokens/s", "weights"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        size = f"{row.counts:,}*" if row.counts else f"{row.parameters:,}"
        figures = [f"{row.figures[name]:.4g}" for name in ladder.figures]
        time = f"{row.seconds:,.1f}"
        table.add_row(row.title, *figures, time, f"{row.tokens:,}", f"{row.tokens_per_second:,.0f}", size)
    return table
