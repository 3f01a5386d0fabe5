"""metrics.jsonl: a line for every step and every validation; TensorBoard on request; and the picture curves.png."""

import json
import math
import os
from pathlib import Path
from typing import Any, Self

from regard.config import Settings
from regard.runs.durable import write_file
from regard.tasks.setup import Sample
from regard.training.learner import StepRecord

KINDS = ("train", "valid")


class MetricsFile:
    """Opened after a resume at step n, the file is first cut back to the steps up to n: none is there twice."""

    def __init__(self, run: Path, step: int, tensorboard: bool) -> None:
        path = run / "metrics.jsonl"
        earlier = [row for row in read_metrics(path) if row["step"] <= step]
        write_file(path, "".join(to_line(row) for row in earlier).encode())
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (closed by __exit__)
        self.events: Any = None  # PyTorch's SummaryWriter, which is imported only on request
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self.events = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        if self.events:
            self.events.close()

    def add_steps(self, rows: list[StepRecord]) -> None:
        for row in rows:
            figures = {"loss": row.loss, "lr": row.lr, "grad_norm": row.grad_norm}
            self.add({"step": row.step, "kind": "train", **figures, "n_tokens": row.n_tokens})
            self.show("train", row.step, figures)

    def add_validation(self, step: int, values: dict[str, float], samples: list[Sample]) -> None:
        self.add({"step": step, "kind": "valid", **values, "samples": samples})
        self.show("valid", step, values)

    def add(self, row: dict[str, object]) -> None:
        self.file.write(to_line(row))
        self.file.flush()

    def show(self, kind: str, step: int, values: dict[str, float]) -> None:
        if self.events:
            for name, value in values.items():
                self.events.add_scalar(f"{kind}/{name}", value, step)

    def sync(self) -> None:
        """Before a checkpoint of a step, so that the checkpoint never knows more steps than the file."""
        self.file.flush()
        os.fsync(self.file.fileno())


class NoMetrics(MetricsFile):
    """In a process that does not lead: nothing is written."""

    def __init__(self) -> None:
        self.events = None

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, row: dict[str, object]) -> None:
        pass

    def sync(self) -> None:
        pass


def open_metrics(run: Path, step: int, tensorboard: bool, is_written: bool) -> MetricsFile:
    return MetricsFile(run, step, tensorboard) if is_written else NoMetrics()


def to_line(row: dict[str, object]) -> str:
    """JSON has no nan: a value that is not finite is null."""
    known = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
    return json.dumps(known, ensure_ascii=False, allow_nan=False) + "\n"


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


def draw_curves(run: Path, metric: str) -> None:
    """Loss, the metric that chooses the best, and learning rate over the steps, as curves.png."""
    from matplotlib.figure import Figure

    rows = read_metrics(run / "metrics.jsonl")
    trained = [row for row in rows if row["kind"] == "train"]
    validated = [row for row in rows if row["kind"] == "valid"]
    panels = ["loss", *([metric] if metric != "loss" else []), "lr"]
    figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for kind, kind_rows, style in (("training", trained, "-"), ("validation", validated, "o-")):
            points = [(row["step"], value) for row in kind_rows if (value := number(row, name)) is not None]
            if points:
                steps, values = zip(*points, strict=True)
                axes.plot(steps, smooth(values) if style == "-" else values, style, label=kind, markersize=3, lw=1.2)
        axes.set(title={"lr": "learning rate", "loss": "loss (nats a token)"}.get(name, name), xlabel="step")
        axes.grid(alpha=0.3)
        if name == "loss":
            axes.legend(frameon=False)
    figure.savefig(run / "curves.png", dpi=130)


def smooth(values: tuple[float, ...]) -> list[float]:
    """Each value as the mean of the (up to) one hundredth of the curve before it."""
    width = max(1, len(values) // 100)
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[end] - sums[max(0, end - width)]) / (end - max(0, end - width)) for end in range(1, len(values) + 1)]
