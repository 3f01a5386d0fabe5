"""Writes metrics.jsonl: a line for every step and every validation; and TensorBoard's events, on request."""

import json
import math
import os
from pathlib import Path
from typing import Any, Self

from regard.runs.durable import write_file
from regard.runs.history import read_metrics
from regard.tasks.setup import Sample
from regard.training.unread import StepRecord


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
