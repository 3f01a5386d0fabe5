"""How a training went, from its metrics.jsonl: losses, validations and samples, and the picture curves.png."""

import base64
import html
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.config import Settings

if TYPE_CHECKING:
    from regard.viewer.style import Drawing

METRICS = "metrics.jsonl"
KINDS = ("train", "valid")


@dataclass(frozen=True)
class TrainingHistory:
    """`run.history`: in a notebook, a picture of the curves and a table of samples."""

    steps: list[Settings]  # of each step its "step", "loss", "lr", "grad_norm" and "n_tokens"
    validations: list[Settings]  # of each its "step", its figures, and "samples"
    figures: tuple[str, ...]  # that the picture shows

    @classmethod
    def read(cls, run: Path, figures: tuple[str, ...]) -> "TrainingHistory":
        rows = read_metrics(run / METRICS)
        steps, validations = ([row for row in rows if row["kind"] == kind] for kind in KINDS)
        return cls(steps, validations, figures)

    def __repr__(self) -> str:
        last = number(self.steps[-1], "loss") if self.steps else None
        loss = "" if last is None else f", last loss {last:.4g}"
        return f"<History of {len(self.steps):,} steps and {len(self.validations):,} validations{loss}>"

    def curve(self, name: str) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """The values of a figure in training and in validation, each with its step."""
        training, validation = (
            [(int(row["step"]), value) for row in rows if (value := number(row, name)) is not None]
            for rows in (self.steps, self.validations)
        )
        return training, validation

    @property
    def samples(self) -> list[tuple[str, str, str]]:
        """Source, reference and output of each sample of the last validation that shows any."""
        for row in reversed(self.validations):
            rows = row.get("samples")
            if isinstance(rows, list) and rows and all(isinstance(cells, list) and len(cells) == 3 for cells in rows):
                return [(str(source), str(reference), str(output)) for source, reference, output in rows]
        return []

    def save(self, path: "Drawing", dark: bool = False) -> None:
        """Loss and other figures, and the learning rate over the steps, as a picture (PNG)."""
        from regard.viewer.curves import CurvePanel, draw_panels  # matplotlib takes a second to import
        from regard.viewer.style import DARK, LIGHT

        panels = []
        for name in self.figures:
            (training, validation), is_loss = self.curve(name), name == "loss"
            title = name.replace("_", " ")
            panels.append(CurvePanel(title, training, validation, is_smoothed=is_loss, logarithmic=is_loss))
        panels.append(CurvePanel("learning rate", self.curve("lr")[0]))
        draw_panels(panels, path, DARK if dark else LIGHT)

    def _repr_html_(self) -> str:
        drawing = io.BytesIO()
        self.save(drawing)
        picture = f'<img src="data:image/png;base64,{base64.b64encode(drawing.getvalue()).decode()}" alt="curves">'
        rows = [("source", "reference", "output"), *self.samples] if self.samples else []
        return picture + table(rows)


def table(rows: list[tuple[str, str, str]]) -> str:
    """As HTML; the first are its headings."""
    lines = []
    for place, row in enumerate(rows):
        tag = "td" if place else "th"
        cells = (f'<{tag} style="text-align: left">{html.escape(cell)}</{tag}>' for cell in row)
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>" if lines else ""


def draw_curves(run: Path, figures: tuple[str, ...]) -> None:
    TrainingHistory.read(run, figures).save(run / "curves.png")


def read_metrics(path: Path) -> list[Settings]:
    """The rows; a last line that a kill cut short is left out, and so is all that is damaged."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and type(row.get("step")) is int and row.get("kind") in KINDS:
            rows.append(row)
    return rows


def number(row: Settings, name: str) -> float | None:
    """One of a row; None: it has none of this name."""
    value = row.get(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else None
