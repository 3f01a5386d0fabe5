"""What a bench found, as a table for people and as JSON for machines."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.timing import Figures


@dataclass(frozen=True, kw_only=True)
class Row:
    case: str  # what was to do: rows of one case compare
    contender: str  # ours begin with "regard"
    figures: Figures
    memory: int | None = None  # bytes at most


@dataclass
class Report:
    name: str
    unit: str
    work: str  # in words
    less_is_better: bool = False
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # which peer is missing and why, what was checked

    def ratio(self, row: Row) -> float | None:
        """How many times faster than this row the best of ours is in its case."""
        ours = [r.figures.median for r in self.rows if r.case == row.case and r.contender.startswith("regard")]
        if not ours:
            return None
        return row.figures.median / min(ours) if self.less_is_better else max(ours) / row.figures.median

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "case": row.case,
                "contender": row.contender,
                "median": row.figures.median,
                "values": row.figures.values,
                "regard_is_faster_by": self.ratio(row),
                "memory_bytes": row.memory,
            }
            for row in self.rows
        ]
        return {"name": self.name, "unit": self.unit, "work": self.work, "rows": rows, "notes": self.notes}

    def print(self, console: Console) -> None:
        table = Table(title=f"{self.name}: {self.work}", title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("case", no_wrap=True)
        table.add_column("contender", no_wrap=True)
        shows_memory = any(row.memory is not None for row in self.rows)
        for heading in (self.unit, "±", "regard is", *(["memory"] if shows_memory else [])):
            table.add_column(heading, justify="right", no_wrap=True)
        previous = ""
        for row in self.rows:
            if previous not in ("", row.case):
                table.add_section()
            ratio = self.ratio(row)
            table.add_row(
                row.case if row.case != previous else "",
                row.contender,
                readable(row.figures.median),
                f"{row.figures.spread:.0%}",
                "" if ratio is None else f"{ratio:.2f}x",
                *(["" if row.memory is None else f"{row.memory / 2**20:,.0f} MiB"] if shows_memory else []),
            )
            previous = row.case
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}", markup=False, highlight=False)
        console.print()


def readable(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def print_machine(machine: dict[str, str | int], console: Console) -> None:
    console.print(", ".join(f"{name} {value}" for name, value in machine.items()), markup=False, highlight=False)
    console.print("medians of the rounds; ± half the range; “regard is”: times faster, the best of ours\n")


def as_json(machine: dict[str, str | int], reports: Iterable[Report]) -> dict[str, Any]:
    return {"machine": machine, "reports": [report.to_json() for report in reports]}
